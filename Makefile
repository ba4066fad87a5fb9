# Two commands to begin with: `make demo` and `make test`. Both make a virtual environment in .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Python keeps what it compiled, whatever the environment says: tests start it some thousand times.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check bench bench-logs scale faults training load clean

demo: $(VENV)/.installed
	$(BIN)/slotsweep run quick-start

# Tests of one group (those that start a Ray, for one) stay in one process; what measures times follows, alone.
# Processes side by side have a thread each: with more they would wait for each other.
test: check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests -m 'not alone' -n auto --dist loadgroup --cov --cov-report= $(PYTEST_ARGS)
	$(BIN)/python -m pytest tests -m alone --cov --cov-append --cov-report=term:skip-covered $(PYTEST_ARGS)

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.installed-test
	$(BIN)/python -P tests/benchmarks/bench.py

# Our log parsers beside drain3, which pip installs for the run, on the Loghub systems that are here: some minutes.
bench-logs: $(VENV)/.installed-test
	$(BIN)/python -P tests/benchmarks/log_parsers.py

# A thousand simulated workers and up to a million trials, on SQLite and Postgres: about an hour, best on a quiet machine.
scale: $(VENV)/.installed-test
	$(BIN)/python -P tests/benchmarks/scale.py

# Some fifty random kills, for a quarter of an hour; SLOTSWEEP_FAULTS_SEED=N plays a run again.
faults: $(VENV)/.installed-test
	SLOTSWEEP_FAULTS=full $(BIN)/python -m pytest tests/faults $(PYTEST_ARGS)

# What trained networks and gates recall, against the published numbers: some minutes of training.
training: $(VENV)/.installed-test
	SLOTSWEEP_TRAINING=full $(BIN)/python -m pytest tests/models -m training $(PYTEST_ARGS)

# Fifty clients of a service for minutes, on SQLite and Postgres, with sweeps running and a large one submitted meanwhile.
load: $(VENV)/.installed-test
	SLOTSWEEP_LOAD=full $(BIN)/python -m pytest tests/orchestrator/service/test_load.py -s $(PYTEST_ARGS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(INSTALL) -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .coverage htmlcov

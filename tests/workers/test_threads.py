from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from workers.threads import THREAD_VARIABLES, thread_environment, usable_cpus


def run(program: str, environment: dict[str, str] | None = None) -> dict[str, object]:
    """What `program` prints as JSON, in a process of its own with none of the thread variables but `environment`."""
    clean = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**clean, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_pinning_before_libraries_load_reaches_them_and_children() -> None:
    seen = run(
        "import json, subprocess, sys; from workers.threads import pin_threads, threads_in_use; pin_threads(1);"
        "before = threads_in_use(); import numpy;"
        "child = subprocess.run([sys.executable, '-c', 'import os; print(os.environ[\"OMP_NUM_THREADS\"])'],"
        "                       capture_output=True, text=True).stdout.strip();"
        "print(json.dumps({'before': before, 'after': threads_in_use(), 'child': child}))"
    )
    assert seen == {"before": 1, "after": 1, "child": "1"}


def test_pinning_after_libraries_loaded_reaches_them_too() -> None:
    seen = run(
        "import json, numpy, numba; from workers.threads import pin_threads, threads_in_use;"
        "before = threads_in_use(); pin_threads(1);"
        "print(json.dumps({'before': before, 'after': threads_in_use(), 'numba': numba.get_num_threads()}))",
        {"OPENBLAS_NUM_THREADS": "2"},
    )
    assert seen["before"] == min(2, usable_cpus())
    assert seen["after"] == seen["numba"] == 1


def test_more_threads_than_numba_was_loaded_with_is_no_error() -> None:
    seen = run(
        "import json, numba; from workers.threads import pin_threads; pin_threads(8);"
        "print(json.dumps({'numba': numba.get_num_threads()}))",
        {"NUMBA_NUM_THREADS": "1"},
    )
    assert seen == {"numba": 1}


def test_numba_compiles_after_it_was_pinned() -> None:
    seen = run(
        "import json, numba; from workers.threads import pin_threads; pin_threads(1); "
        "first = numba.njit(lambda x: x + 1)(1); pin_threads(1); second = numba.njit(lambda x: x + 2)(1);"
        "print(json.dumps({'results': [first, second], 'numba': numba.get_num_threads()}))",
        {"NUMBA_NUM_THREADS": "2"},
    )
    assert seen == {"results": [2, 3], "numba": 1}


def test_without_libraries_and_variables_every_usable_cpu_counts() -> None:
    seen = run("import json; from workers.threads import threads_in_use; print(json.dumps({'n': threads_in_use()}))")
    assert seen == {"n": usable_cpus()}


def test_no_threads_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        thread_environment(0)

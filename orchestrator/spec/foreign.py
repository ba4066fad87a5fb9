"""Words that users of other sweep tools bring along, and what stands for them here."""

from __future__ import annotations

AXIS_VALUES = "write {values: [a, b, c]}"
LINSPACE = "write {linspace: [low, high, n]}"
LOGSPACE = "write {logspace: [low, high, n]}"
RANGE = "write {range: [start, stop, step]}"
GRID = "a frontier sweeps a grid, it draws nothing at random: write {linspace: [low, high, n]} or {values: [...]}"

AXIS_WORDS = {
    "value": "write the value alone",
    **dict.fromkeys(
        ("choice", "choices", "grid_search", "grid", "categorical", "list", "options", "enum"), AXIS_VALUES
    ),
    **dict.fromkeys(
        ("min", "max", "low", "high", "start", "stop", "end", "num", "interval", "feasibleSpace"), LINSPACE
    ),
    **dict.fromkeys(("geomspace", "log", "log10", "logarithmic"), LOGSPACE),
    **dict.fromkeys(("arange", "step", "int_range"), RANGE),
    **dict.fromkeys(
        (
            *("distribution", "uniform", "quniform", "q_uniform", "loguniform", "log_uniform", "log_uniform_values"),
            *("qloguniform", "randint", "lograndint", "normal", "randn", "lognormal", "sample_from", "probabilities"),
        ),
        GRID,
    ),
}
"""Found where an axis should stand."""

_AXES = "axes stand on the fields of `workload` and `mechanisms`, such as `tau: {values: [0.2, 0.4]}`"
_TUNING = "objectives and search belong to `kind: tuning`; a frontier reports every metric"
_SIZE = "a frontier runs the whole product of its axes; its size is set by the axes and `seeds`"
_PLUGINS = "a sweep runs mechanisms on workloads; `plugins` names modules with your own"
_LIMITS = "limits are options of the command line"
_FLAT = "write `name`, `kind`, `workload`, `mechanisms` and `seeds` at the top"

TOP_KEYS = {
    **dict.fromkeys(("parameters", "params", "param_space", "search_space", "sweep", "config", "defaults"), _AXES),
    **dict.fromkeys(("metric", "metrics", "objective", "goal", "direction", "directions", "mode"), _TUNING),
    **dict.fromkeys(("algorithm", "early_terminate", "scheduler", "search_alg"), _TUNING),
    **dict.fromkeys(("n_trials", "num_samples", "run_cap", "maxTrialCount"), _SIZE),
    **dict.fromkeys(("max_num_trials_completed", "count"), _SIZE),
    **dict.fromkeys(("program", "command", "trialTemplate", "entrypoint", "script"), _PLUGINS),
    **dict.fromkeys(("apiVersion", "metadata", "spec"), _FLAT),
    **dict.fromkeys(("parallelTrialCount", "max_wallclock_time", "max_cost"), _LIMITS),
    "method": "the grid is always run in full; what is compared stands under `mechanisms`",
}
"""Found at the top of a spec, with no key of ours in their place; in a tuning spec `TUNING_KEYS` come first."""

RENAMED_KEYS = {
    **dict.fromkeys(("project", "experiment", "experiment_name", "study_name", "title", "entity"), "name"),
    **dict.fromkeys(("seed", "random_state", "repeats", "n_seeds"), "seeds"),
    **dict.fromkeys(("resources", "num_gpus", "gpus", "resources_per_trial"), "device"),
    **dict.fromkeys(("accelerator_type", "accelerators"), "accelerator"),
    **dict.fromkeys(("maxFailedTrialCount", "max_failures"), "on_failure"),
    **dict.fromkeys(("task", "tasks", "dataset", "data"), "workload"),
    **dict.fromkeys(("model", "models", "methods", "policies", "policy"), "mechanisms"),
}
"""Found at the top of a spec in place of a key of ours."""

_TUNING_WORDS = {
    "search": (
        "write `search: {mechanism.FIELD: {low: 0.1, high: 0.9}}`",
        ("parameters", "params", "param_space", "search_space", "space", "config", "distributions", "sweep"),
    ),
    "objectives": (
        "write `objectives: {recall: maximize}`",
        ("metric", "metrics", "objective", "goal", "direction", "directions", "mode", "optimize"),
    ),
    "constraints": ("write `constraints: {slots: {at_most: 18}}`", ("constraint", "outcome_constraints")),
    "trials": (
        "write `trials: 100`: proposals that every study makes",
        ("n_trials", "num_samples", "run_cap", "maxTrialCount", "max_num_trials_completed", "count", "max_evals"),
    ),
    "sampler": ("write `sampler: tpe`", ("algorithm", "method", "search_alg", "searcher", "optimizer")),
    "sampler_seed": (
        "write `sampler_seed: 7`; `seeds` are those that proposals are evaluated on",
        ("seed", "random_state", "search_seed"),
    ),
    "batch": ("write `batch: 20`", ("batch_size", "max_concurrent", "max_concurrent_trials", "parallelTrialCount")),
    "pruner": (
        "write `pruner: wilcoxon`, or none",
        ("early_terminate", "early_stopping", "earlyStopping", "scheduler", "stopper"),
    ),
    "enqueue": ("write `enqueue: [{mechanism.FIELD: 0.4}]`", ("points_to_evaluate", "initial_points", "enqueue_trial")),
}

TUNING_KEYS = {word: (key, cure) for key, (cure, words) in _TUNING_WORDS.items() for word in words}
"""Found at the top of a tuning spec: the key of ours that stands for it, and how to write that."""

LOG = "write {low: 0.001, high: 1, log: true}"
CHOICES = "write {choices: [a, b, c]}"
STEP = "write {low: 0, high: 10, step: 2}"
BOUNDS = "write {low: 0.1, high: 0.9}"
LEVELS = "write {field: mechanism.steps, levels: [100, 300, 900]}"
NORMAL = "a search draws from ranges and choices: write {low: 0.1, high: 0.9}"

LOWS = ("low", "min", "lower", "start", "minimum")
HIGHS = ("high", "max", "upper", "stop", "end", "maximum")
VALUES = ("values", "choice", "list", "options", "enum", "grid_search", "categories")

DIMENSION_WORDS = {
    **dict.fromkeys((*LOWS, *HIGHS), BOUNDS),
    **dict.fromkeys(("bounds", "interval", "linspace", "uniform", "feasibleSpace", "range", "parameterType"), BOUNDS),
    **dict.fromkeys(("type", "name", "_type", "_value"), f"{BOUNDS}, or {{choices: [a, b, c]}}"),
    **dict.fromkeys(
        ("values", "choice", "list", "options", "enum", "grid_search", "categories", "categorical"), CHOICES
    ),
    **dict.fromkeys(("scale", "log_scale", "logspace", "loguniform", "log_uniform", "log_uniform_values"), LOG),
    **dict.fromkeys(("q", "quniform", "q_uniform", "num", "n"), STEP),
    **dict.fromkeys(("normal", "randn", "lognormal", "mu", "sigma", "probabilities", "sample_from"), NORMAL),
    **dict.fromkeys(
        ("condition", "conditions", "if", "depends_on", "parent"), "write {when: {mechanism.FIELD: value}}"
    ),
    **dict.fromkeys(("value", "default"), "a fixed value stands in the entry, as `tau: 0.4`"),
}
"""Found where a search dimension should have `low`, `high`, `log`, `step`, `choices` or `when`."""

DISTRIBUTIONS = {
    "quniform": STEP,
    "q_uniform": STEP,
    "qloguniform": LOG,
    "q_log_uniform_values": LOG,
    "uniform": BOUNDS,
    "loguniform": LOG,
    "log_uniform": LOG,
    "log_uniform_values": LOG,
    "inv_log_uniform_values": LOG,
    "int_uniform": "write {low: 1, high: 9}; a field of whole numbers is given whole numbers",
    "randint": "write {low: 1, high: 9}; a field of whole numbers is given whole numbers",
    "lograndint": LOG,
    "categorical": CHOICES,
    "choice": CHOICES,
    "grid_search": CHOICES,
    "constant": "a fixed value stands in the entry, as `tau: 0.4`",
    "floatdistribution": BOUNDS,
    "intdistribution": "write {low: 1, high: 9}; a field of whole numbers is given whole numbers",
    "categoricaldistribution": CHOICES,
    **dict.fromkeys(("normal", "q_normal", "log_normal", "randn", "lognormal", "beta"), NORMAL),
}
"""Names of distributions in Optuna, W&B, Ray Tune, Katib and Hyperopt, in lower case."""

OPTION_WORDS = {
    "constraints": {
        **dict.fromkeys(("max", "upper", "le", "less_than", "lower_than"), "write at_most"),
        **dict.fromkeys(("min", "lower", "ge", "greater_than"), "write at_least"),
    },
    "sampler": {
        **dict.fromkeys(("n_startup_trials", "num_initial_points", "initial_random_trials"), "write startup"),
        **dict.fromkeys(("population_size", "popsize"), "write population"),
        **dict.fromkeys(("seed", "random_state"), "write `sampler_seed` at the top of the spec"),
        "type": "write name",
    },
    "pruner": {
        **dict.fromkeys(("reduction_factor", "eta"), "write reduction"),
        **dict.fromkeys(("p_threshold", "alpha"), "write p"),
        **dict.fromkeys(("n_startup_steps", "n_warmup_steps"), "write first"),
        **dict.fromkeys(("min_resource", "max_resource", "min_iter", "max_iter", "max_t", "grace_period"), LEVELS),
        "type": "write name",
    },
}
"""Found inside these options."""

GOAL_WORDS = ("metric", "name", "goal", "direction", "directions", "mode", "type", "objectiveMetricName", "maximize")
"""Found under `objectives` in place of the names of metrics."""

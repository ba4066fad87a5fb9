"""Words that users of other sweep tools bring along, and what stands for them here."""

from __future__ import annotations

VALUES = "write {values: [a, b, c]}"
LINSPACE = "write {linspace: [low, high, n]}"
LOGSPACE = "write {logspace: [low, high, n]}"
RANGE = "write {range: [start, stop, step]}"
GRID = "a frontier sweeps a grid, it draws nothing at random: write {linspace: [low, high, n]} or {values: [...]}"

AXIS_WORDS = {
    "value": "write the value alone",
    **dict.fromkeys(("choice", "choices", "grid_search", "grid", "categorical", "list", "options", "enum"), VALUES),
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
    **dict.fromkeys(
        ("metric", "metrics", "objective", "objectives", "goal", "direction", "directions", "mode"), _TUNING
    ),
    **dict.fromkeys(
        ("search", "sampler", "pruner", "algorithm", "early_terminate", "scheduler", "search_alg"), _TUNING
    ),
    **dict.fromkeys(("n_trials", "num_samples", "run_cap", "maxTrialCount", "maxFailedTrialCount", "trials"), _SIZE),
    **dict.fromkeys(("max_num_trials_completed", "count"), _SIZE),
    **dict.fromkeys(("program", "command", "trialTemplate", "entrypoint", "script"), _PLUGINS),
    **dict.fromkeys(("apiVersion", "metadata", "spec"), _FLAT),
    **dict.fromkeys(("parallelTrialCount", "max_wallclock_time", "max_cost"), _LIMITS),
    "method": "the grid is always run in full; what is compared stands under `mechanisms`",
}
"""Found at the top of a spec, with no key of ours in their place."""

RENAMED_KEYS = {
    **dict.fromkeys(("project", "experiment", "experiment_name", "study_name", "title", "entity"), "name"),
    **dict.fromkeys(("seed", "random_state", "repeats", "n_seeds"), "seeds"),
    **dict.fromkeys(("resources", "num_gpus", "gpus", "resources_per_trial"), "device"),
    **dict.fromkeys(("accelerator_type", "accelerators"), "accelerator"),
    **dict.fromkeys(("task", "tasks", "dataset", "data"), "workload"),
    **dict.fromkeys(("model", "models", "methods", "policies", "policy"), "mechanisms"),
}
"""Found at the top of a spec in place of a key of ours."""

DISTANT_KINDS = ("tuning", "training")
"""Job types with a name and no reader."""

"""The keys at the top of a spec and what they accept. Workloads and mechanisms bring their own fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, WithJsonSchema, model_validator

from models.devices.device import DeviceClass
from models.stream import DTYPES
from tasks.kind import KINDS
from tasks.sequential import FIRST_STAGE

KindName = Annotated[str, WithJsonSchema({"type": "string", "enum": KINDS.names()})]

DTypeName = Literal["float32", "float16", "bfloat16", "float64"]
assert set(get_args(DTypeName)) == set(DTYPES)

MOST_SEEDS = 1_000_000
LAST_SEED = 2**63 - 1

ONE_LINE = r"^\S(.*\S)?$"

SeedCount = Annotated[int, Field(ge=1, le=MOST_SEEDS)]
SeedValue = Annotated[int, Field(ge=0, le=LAST_SEED)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SeedRange(_Strict):
    """Consecutive seeds."""

    count: SeedCount = Field(description="how many seeds")
    base: SeedValue = Field(0, description="the first seed")

    @model_validator(mode="after")
    def _last_fits(self) -> SeedRange:
        if self.base + self.count - 1 > LAST_SEED:
            raise ValueError("the last of these seeds is above 2**63 - 1")
        return self


class UntilNarrow(_Strict):
    """A first stage of seeds tells how many there must be for an interval as narrow as this."""

    metric: str = Field(description="the metric whose mean is to be known")
    half_width: float = Field(gt=0, description="the mean is to be known within ± this, with 95% confidence")
    max: int = Field(ge=2, le=MOST_SEEDS, description="most seeds there may be, narrow enough or not")
    first: int = Field(FIRST_STAGE, ge=2, le=MOST_SEEDS, description="seeds of the first stage")

    @model_validator(mode="after")
    def _first_fits(self) -> UntilNarrow:
        if "first" in self.model_fields_set and self.first > self.max:
            raise ValueError(f"the first stage has {self.first} seeds, and there may be {self.max}")
        return self


class SeedsUntilNarrow(_Strict):
    """Consecutive seeds, as many as an interval needs to be narrow enough."""

    until: UntilNarrow = Field(description="{metric: recall, half_width: 0.01, max: 200}")
    base: SeedValue = Field(0, description="the first seed")

    @model_validator(mode="before")
    @classmethod
    def _counts_itself(cls, value: Any) -> Any:
        if isinstance(value, dict) and "count" in value:
            raise ValueError("`until` and `count` exclude each other: `until` tells how many seeds there must be")
        return value

    @model_validator(mode="after")
    def _last_fits(self) -> SeedsUntilNarrow:
        if self.base + self.until.max - 1 > LAST_SEED:
            raise ValueError("the last of these seeds is above 2**63 - 1")
        return self


def _form_of_seeds(value: Any) -> str | None:
    if isinstance(value, dict):
        return "until narrow" if "until" in value else "a range"
    forms = {int: "a count", list: "a list", SeedRange: "a range", SeedsUntilNarrow: "until narrow"}
    return forms.get(type(value))


Seeds = Annotated[
    Annotated[SeedCount, Tag("a count")]
    | Annotated[SeedRange, Tag("a range")]
    | Annotated[SeedsUntilNarrow, Tag("until narrow")]
    | Annotated[list[SeedValue], Field(min_length=1), Tag("a list")],
    Discriminator(_form_of_seeds),
]


def _form_of_device(value: Any) -> str:
    return "a list" if isinstance(value, list) else "one"


Device = Annotated[
    Annotated[DeviceClass | Literal["any"], Tag("one")]
    | Annotated[list[DeviceClass], Field(min_length=1), Tag("a list")],
    Discriminator(_form_of_device),
]


def _form_of_reaction(value: Any) -> str:
    return "a limit" if isinstance(value, dict) else "a word"


class StopAfter(_Strict):
    """A limit on failed trials."""

    stop_after: int = Field(ge=1, description="stop once this many trials have failed")


OnFailure = Annotated[
    Annotated[Literal["continue", "stop"], Tag("a word")] | Annotated[StopAfter, Tag("a limit")],
    Discriminator(_form_of_reaction),
]


class Retries(_Strict):
    """How often a trial is tried again before it fails for good."""

    infrastructure: int = Field(3, ge=0, le=100, description="after a lost worker")
    code: int = Field(0, ge=0, le=100, description="after an error of the trial's own")


class SpecFields(_Strict):
    """A slotsweep spec: one sweep, written down."""

    name: str = Field(
        min_length=1,
        max_length=200,
        pattern=ONE_LINE,
        description="what the sweep is called, here and in MLflow; one line",
    )
    kind: KindName = Field(description="the job type")
    description: str | None = Field(None, description="free text that goes with the results")
    workload: Any = Field(description="what makes the streams: one workload, or a list of them")
    mechanisms: Any = Field(description="the memories that read the streams, one entry each")
    seeds: Seeds = Field(
        description="a count n (seeds 0 to n - 1), or {count: 10, base: 7}, or a list, or {until: {metric: recall, "
        "half_width: 0.01, max: 200}}; the same for every mechanism"
    )
    episodes: int | None = Field(
        None, ge=1, le=10**9, description="streams a trial averages over; the workload's own number where absent"
    )
    device: Device = Field(
        "any", description="where trials run: cpu, cuda, mps, any, or a list to run on each and compare"
    )
    accelerator: str | None = Field(
        None,
        pattern=r"^[A-Za-z][A-Za-z0-9-]*( [A-Za-z0-9-]+)*$",
        description="model of GPU that trials on cuda or mps need: H100, M3-Max, RTX 4090; any where absent",
    )
    dtype: DTypeName = Field("float32", description="number format in which keys are stored")
    plugins: list[str] = Field(
        default_factory=list,
        description="modules with mechanisms or workloads of your own: names, or .py files relative to the spec",
    )
    priority: int = Field(0, ge=-1000, le=1000, description="of several queued sweeps the highest priority runs first")
    on_failure: OnFailure = Field(
        "continue", description="when trials fail: continue, stop at the first, or {stop_after: n}"
    )
    timeout: float | None = Field(None, gt=0, le=1e7, description="most seconds a trial may take")
    retries: Retries = Field(
        default_factory=Retries, description="{infrastructure: 3, code: 0}: tries after the first one"
    )

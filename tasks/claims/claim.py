"""What a claim is: a published number or statement, what to measure for it, and the test that compares the two."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from tasks.certificate import Published

Scalar = str | int | float | bool | None
Fields = dict[str, Scalar | tuple[Scalar, ...]]
"""Fields of a workload or mechanism: the value of each, or several, one of which it has. What a row lacks is None."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Selection(_Strict):
    """Rows of a sweep, told by fields of their configs; a mechanism may be given by its name alone.

    seeds  only these; None: all
    """

    mechanism: Fields = Field(default_factory=dict)
    workload: Fields = Field(default_factory=dict)
    seeds: tuple[int, ...] | None = Field(None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _names(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        short = {key: {"name": value} for key in ("mechanism", "workload") if isinstance(value := given.get(key), str)}
        return {**given, **short}


class Value(Selection):
    """One number a seed: a metric of the one row that is selected.

    metric   a metric's name, or `series.NAME` for numbers in a row: as many points as there are numbers
    per      a metric to divide by, in the same row
    at       of a series only the number at this place; -1 is the last
    fold     of a series only its mean, largest or smallest number
    excess   (value - chance) / (1 - chance), the share of what guessing leaves, by the chance of the same row
    reaches  1 for a number of so much or more, 0 for a smaller one: the mean is then a share of seeds
    pooled   several rows a seed may be selected, of which the mean is taken
    """

    metric: str
    per: str | None = None
    excess: bool = False
    at: int | None = None
    fold: Literal["mean", "max", "min"] | None = None
    reaches: float | None = None
    pooled: bool = False


class Curve(Selection):
    """A metric at several points: the field `along` (`mechanism.budget`, or `seed`) has each of `points` in turn."""

    metric: str
    per: str | None = None
    along: str = Field(pattern=r"^((mechanism|workload)\.\w+|seed)$")
    points: tuple[Scalar, ...] = Field(min_length=2)


class Best(Selection):
    """The frontier at a size: the best mean of a metric among the selected cells of at most `size` on average.

    A cell of 64.0003 slots on average counts at 64: the size may be exceeded by `slack`.
    """

    best: str
    size: float
    axis: Literal["slots", "bytes", "slots_mean", "slots_phase_end"] = "slots"
    slack: float = 0.5


class Slope(Selection):
    """Least-squares slope of `metric` against `against`, for each seed over all its selected rows (and series).

    times  a metric to multiply `slope` by, in the same row
    scale  `log_log` gives an exponent; `log_x` the gain for each e-fold of x
    least  points with a smaller x are left out
    """

    slope: str
    times: str | None = None
    against: str
    scale: Literal["log_log", "log_x"]
    least: float = 0.0


class Dominance(_Strict):
    """Differences of two frontiers at every size at which either may change, from `low` to `high`, paired by seed.

    over, under: the cells of each frontier, by recall and slots
    """

    over: Selection
    under: Selection
    low: float = Field(gt=0)
    high: float = Field(gt=0)


class Difference(_Strict):
    """The first measure minus the second, paired by seed, point by point."""

    difference: tuple[Measure, Measure]


class Ratio(_Strict):
    """The first measure over the second, paired by seed, point by point."""

    ratio: tuple[Measure, Measure]


FORMS = ("difference", "ratio", "slope", "best", "over", "along", "metric")
"""Fields that tell the forms of a measure apart, the more telling first."""


def _form(value: Any) -> str | None:
    given = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return next((field for field in FORMS if field in given), None)


Measure = Annotated[
    Annotated[Difference, Tag("difference")]
    | Annotated[Ratio, Tag("ratio")]
    | Annotated[Slope, Tag("slope")]
    | Annotated[Best, Tag("best")]
    | Annotated[Dominance, Tag("over")]
    | Annotated[Curve, Tag("along")]
    | Annotated[Value, Tag("metric")],
    Discriminator(_form),
]


class IntervalTest(_Strict):
    """Whether the measured mean agrees with the published number, each within its error.

    They agree if they differ by at most `within` plus the half width of the 95% interval of their difference. Where so
    much may differ that a number could agree with the published one and with `against`, agreement is no verdict.

    within    what the published number leaves open: rounding, or a line's width where it was read off a figure
    because   why `within` is more than that
    outcomes  queries the published share is the mean of: its error is the binomial one
    sd, seeds the published standard deviation over how many seeds: its error is that of their mean
    runs      the published number is the mean of so many runs, each of which may lie as far off as single seeds do here
    against   the number that would say the opposite; by default chance for a recall, and 0 for what is none
    """

    name: Literal["interval"] = "interval"
    within: float = Field(0.005, ge=0)
    because: str | None = None
    outcomes: int | None = Field(None, ge=1)
    sd: float | None = Field(None, ge=0)
    seeds: int = Field(10, ge=2)
    runs: int | None = Field(None, ge=1)
    against: float | None = None


class ExactTest(_Strict):
    """Whether every seed gives the published numbers, with `digits` after rounding to so many behind the point.

    digits  -3 rounds to thousands
    """

    name: Literal["exact"] = "exact"
    digits: int | None = Field(None, ge=-9, le=9)


class BoundTest(_Strict):
    """Whether the 95% interval of every point lies inside the limits.

    stated  the paper states the limits; otherwise they are this test's own
    """

    name: Literal["bound"] = "bound"
    at_least: float | None = None
    at_most: float | None = None
    stated: bool = False

    @model_validator(mode="after")
    def _has_a_limit(self) -> BoundTest:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a bound needs `at_least`, `at_most` or both")
        return self


class EquivalenceTest(_Strict):
    """Whether a difference is 0 to within `margin`: two one-sided t-tests at 5%."""

    name: Literal["equivalence"] = "equivalence"
    margin: float = Field(gt=0)


class DominanceTest(_Strict):
    """Whether one frontier is nowhere more than `margin` below the other, and somewhere above by its 95% interval."""

    name: Literal["dominance"] = "dominance"
    margin: float = Field(0.005, ge=0)


Test = Annotated[IntervalTest | ExactTest | BoundTest | EquivalenceTest | DominanceTest, Field(discriminator="name")]


class Statement(_Strict):
    """A measure and its test.

    sweep  the ready-made spec whose trials are measured
    under  the conditions, in words: what the spec assumes that the paper does not say, or what was changed
    """

    sweep: str
    measure: Measure
    test: Test
    under: str


class Ablation(Statement):
    """The claim under another condition.

    expects  what should come out
    says     that outcome in words; nobody is told so where another comes out
    """

    says: str
    expects: Literal["holds", "differs"] = "differs"
    published: Published | None = None


class Claim(_Strict):
    """One published number or statement.

    id         e.g. `table-1/dp-recall`
    where      place in the paper, e.g. `Table 1, §3.1.1`
    says       one sentence
    published  the number or numbers (as many as the measure has points), or words where there is no number
    sweep, measure, test, under   as in `Statement`; without `sweep` nothing can measure it
    missing    the data or machine that is needed and is not at hand everywhere, as a sentence
    ablation   the same claim under another condition
    remark     what else a reader should know
    """

    id: str = Field(pattern=r"^[a-z0-9-]+/[a-z0-9.-]+$")
    where: str
    says: str
    published: Published
    sweep: str | None = None
    measure: Measure | None = None
    test: Test | None = None
    under: str = "as the paper states"
    missing: str | None = None
    ablation: Ablation | None = None
    remark: str | None = None

    @property
    def statement(self) -> Statement | None:
        """What is measured; None where nothing can be."""
        if self.sweep is None or self.measure is None or self.test is None:
            return None
        return Statement(sweep=self.sweep, measure=self.measure, test=self.test, under=self.under)

    @model_validator(mode="after")
    def _is_measured_or_says_why_not(self) -> Claim:
        parts = (self.sweep, self.measure, self.test)
        if any(part is None for part in parts) and any(part is not None for part in parts):
            raise ValueError(f"claim {self.id}: `sweep`, `measure` and `test` stand together or not at all")
        if self.sweep is None and self.missing is None:
            raise ValueError(f"claim {self.id}: give `sweep`, `measure` and `test`, or `missing`: why there are none")
        return self


class Paper(_Strict):
    """A paper and its claims."""

    name: str
    title: str
    source: str
    claims: tuple[Claim, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Paper:
        ids = [claim.id for claim in self.claims]
        repeated = sorted({id_ for id_ in ids if ids.count(id_) > 1})
        if repeated:
            raise ValueError(f"ids of claims must differ; repeated: {', '.join(repeated)}")
        return self


Difference.model_rebuild()
Ratio.model_rebuild()

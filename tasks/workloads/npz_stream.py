"""Keys, values and queries of an attention layer, captured into an .npz file, as a stream."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from models.similarity import QUERY_BLOCK_ELEMENTS
from models.stream import Attention, Floats, Ints, Phase, Stream
from tasks.attention import ATTENTION_METRICS
from tasks.tables.arrays import arrays_in, shapes_in
from tasks.tables.columns import TableError
from tasks.text.source import FilesConfig, Sha256, known, unchanged
from tasks.workload import LONGEST_STREAM, Workload, workload

NEEDED = ("keys", "values", "queries")
OPTIONAL = ("positions", "tokens", "answers", "scale")


def _npz_file(path: str) -> str:
    if not path.endswith(".npz"):
        raise ValueError(f"{path} is no .npz")
    return path


class NpzStreamConfig(FilesConfig):
    """Real attention traffic: the keys, values and queries of a layer and head, such as `slotsweep capture` writes.

    Arrays: keys [N, d]; values, vectors [N, dv] or classes [N]; queries [Q, d]; and, where they are there, positions
    [Q], the tokens that have come when a query is asked (by default all); tokens [N], ids of text, classes where values
    are vectors (by default each token is a class of its own); answers [Q], classes; scale, by default 1/sqrt(d).
    """

    name: Literal["npz_stream"] = "npz_stream"
    path_sha256: Sha256 = None
    path: Annotated[
        str,
        AfterValidator(_npz_file),
        AfterValidator(known),
        Field(description=".npz with arrays `keys`, `values` and `queries`, and what else goes with them"),
    ]

    @model_validator(mode="after")
    def _has_arrays(self) -> NpzStreamConfig:
        if Path(self.path).is_file():
            try:
                checked_shapes(self.path)
            except TableError as error:
                raise ValueError(str(error)) from error
        return self


@workload(NpzStreamConfig)
class NpzStream(Workload[NpzStreamConfig]):
    """Tokens in the order of the file; queries in phases by their positions. No seed draws anything.

    The right answer of a query, unless the file has answers, is the class of the token that its largest logit is with,
    of those that have come: recall is how often a memory reads that. Memories see keys of length 1, apart from those
    that go by norms; `attention_error` and `top1_agreement` attend with the keys as they are. Chance is the probability
    that two of the tokens are of one class.
    """

    default_episodes: ClassVar[int] = 1
    own_metrics: ClassVar[tuple[str, ...]] = ATTENTION_METRICS

    def __init__(self, config: NpzStreamConfig) -> None:
        super().__init__(config)
        self._stream = read_stream(str(unchanged(config.path, config.path_sha256)))

    def stream(self, seed: int, episode: int) -> Stream:
        return self._stream

    @classmethod
    def tokens(cls, config: NpzStreamConfig) -> int:
        """By the file, as far as it is here."""
        try:
            return checked_shapes(config.path)["keys"][0]
        except TableError:
            return LONGEST_STREAM

    @classmethod
    def width(cls, config: NpzStreamConfig) -> int:
        """By the file, as far as it is here."""
        try:
            return checked_shapes(config.path)["keys"][1]
        except TableError:
            return 1

    @classmethod
    def cpu_alone(cls, config: NpzStreamConfig) -> str | None:
        return "the CPU alone compares outputs with full attention"


def checked_shapes(path: str) -> dict[str, tuple[int, ...]]:
    """Shape of each array, from its head alone. Raises TableError where one that is needed is missing."""
    found = shapes_in(path)
    for name in found:
        near = difflib.get_close_matches(name.casefold(), (*NEEDED, *OPTIONAL), n=1, cutoff=0.8)
        if near and near[0] not in found:
            raise TableError(f"{path} has an array `{name}`, which is not read; did you mean `{near[0]}`?")
    for name in NEEDED:
        if name not in found:
            has = ", ".join(f"`{one}`" for one in sorted(found)) or "none"
            raise TableError(f"{path} has no array `{name}`: it needs {', '.join(NEEDED)}, and has {has}")
    if len(found["keys"]) != 2 or 0 in found["keys"]:
        raise TableError(f"{path}: `keys` has the shape {found['keys']}, where [N, d] is needed")
    if found["keys"][0] > LONGEST_STREAM:
        raise TableError(
            f"{path} has {found['keys'][0]:,} keys, and at most {LONGEST_STREAM:,} are read: capture fewer"
        )
    return found


def read_stream(path: str) -> Stream:
    """The stream in the file at `path`. Raises TableError with array, row and column, and as `top_tokens` does."""
    checked_shapes(path)
    arrays = arrays_in(path, (*NEEDED, *OPTIONAL))
    keys = _vectors(path, "keys", arrays["keys"])
    length, dim = keys.shape
    queries = _vectors(path, "queries", arrays["queries"])
    if queries.shape[1] != dim or len(queries) == 0:
        raise TableError(
            f"{path}: `queries` has the shape {queries.shape}, where [Q, {dim}] is needed, as keys have it"
        )
    positions = np.full(len(queries), length)
    if "positions" in arrays:
        positions = _whole(path, "positions", arrays["positions"], len(queries))
        wrong = np.flatnonzero((positions < 1) | (positions > length))
        if len(wrong):
            raise TableError(
                f"{path}: `positions`, row {wrong[0] + 1}: {positions[wrong[0]]} is not within 1..{length}"
            )
    vectors = None
    if arrays["values"].ndim == 2:
        vectors = _vectors(path, "values", arrays["values"])
        if len(vectors) != length:
            raise TableError(f"{path}: `values` has the shape {vectors.shape}, where [{length}, dv] is needed")
        ids = _whole(path, "tokens", arrays["tokens"], length) if "tokens" in arrays else np.arange(length)
    else:
        ids = _whole(path, "values", arrays["values"], length)
    attention = Attention(vectors, _scale(path, arrays.get("scale"), dim))
    names, classes = np.unique(ids, return_inverse=True)
    top = top_tokens(keys * attention.scale, queries, positions)
    answers = classes[top]
    if "answers" in arrays:
        answers = _known_classes(path, _whole(path, "answers", arrays["answers"], len(queries)), names)
    phases = []
    for end in np.unique(positions):
        here = np.flatnonzero(positions == end)
        phases.append(Phase(int(end), queries[here], answers[here], top[here], np.arange(len(here))))
    shares = np.bincount(classes) / length
    chance = float(shares @ shares)
    return Stream(keys, classes, np.arange(length), tuple(phases), len(names), chance, attention=attention)


def top_tokens(keys: Floats, queries: Floats, positions: Ints) -> Ints:
    """Token [Q] with the largest logit for each query, of the first `positions` [Q] tokens; the oldest on a tie.

    Raises FloatingPointError where a logit is not finite.
    """
    top = np.empty(len(queries), dtype=np.int64)
    size = max(1, QUERY_BLOCK_ELEMENTS // len(keys))
    for start in range(0, len(queries), size):
        part = slice(start, start + size)
        with np.errstate(over="ignore", invalid="ignore"):
            logits = queries[part] @ keys.T
        wrong = np.argwhere(~np.isfinite(logits))
        if len(wrong):
            query, key = wrong[0] + (start, 0)
            raise FloatingPointError(f"the product of `queries`, row {query + 1}, and `keys`, row {key + 1} overflows")
        logits[np.arange(len(keys)) >= positions[part, None]] = -np.inf
        top[part] = logits.argmax(axis=1)
    return top


def _vectors(path: str, name: str, array: np.ndarray) -> Floats:
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise TableError(f"{path}: `{name}` is {array.dtype} {array.shape}, where a matrix of numbers is needed")
    found = array.astype(np.float64)
    wrong = np.argwhere(~np.isfinite(found))
    if len(wrong):
        row, column = wrong[0]
        raise TableError(f"{path}: `{name}`, row {row + 1}, column {column + 1}: {found[row, column]} is not finite")
    return found


def _whole(path: str, name: str, array: np.ndarray, length: int) -> Ints:
    if array.shape != (length,) or array.dtype.kind not in "iu":
        raise TableError(f"{path}: `{name}` is {array.dtype} {array.shape}, where {length} whole numbers are needed")
    beyond = np.flatnonzero(array > np.iinfo(np.int64).max)
    if len(beyond):
        raise TableError(
            f"{path}: `{name}`, row {beyond[0] + 1}: {array[beyond[0]]} is beyond whole numbers of 64 bits"
        )
    return array.astype(np.int64)


def _scale(path: str, array: np.ndarray | None, dim: int) -> float:
    if array is None:
        return float(dim**-0.5)
    if array.size != 1 or array.dtype.kind not in "fiu" or not 0.0 < float(array.reshape(-1)[0]) < np.inf:
        raise TableError(f"{path}: `scale` is {array.dtype} {array.shape}, where one number above 0 is needed")
    return float(array.reshape(-1)[0])


def _known_classes(path: str, answers: Ints, names: Ints) -> Ints:
    places = np.minimum(np.searchsorted(names, answers), len(names) - 1)
    wrong = np.flatnonzero(names[places] != answers)
    if len(wrong):
        raise TableError(f"{path}: `answers`, row {wrong[0] + 1}: no token has the class {answers[wrong[0]]}")
    return places

"""Cosines are computed once, in blocks whose shapes depend on the stream alone."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

from models import similarity
from models.similarity import Similarities
from models.stream import unit


def test_segments_tile_the_stream_and_end_where_phases_end(lab: SimpleNamespace) -> None:
    stream = lab.stream(np.ones((700, 2)), ends=(10, 256, 300, 600))
    segments = [(start, stop, phase and phase.end) for start, stop, phase in Similarities(stream).segments()]
    assert segments == [(0, 10, 10), (10, 256, 256), (256, 300, 300), (300, 512, None), (512, 600, 600)]


def test_long_streams_have_smaller_blocks(lab: SimpleNamespace) -> None:
    assert Similarities(lab.stream(np.ones((10_000, 1)))).block_tokens == 256
    longer = Similarities(lab.stream(np.ones((100_000, 1)), classes=100_000, queries=np.ones((1, 1))))
    assert 16 <= longer.block_tokens <= 2**26 / 8 / 100_000


def test_rows_and_weights_are_cosines_with_everything_so_far(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(0, items=10)
    similarities = Similarities(stream)
    keys = unit(stream.keys.astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(similarities.rows(7, 20), keys[7:20] @ keys[:20].T, atol=1e-14)
    expected = np.exp((keys[7:20] @ keys[:20].T - 1.0) / 0.13)
    np.testing.assert_allclose(similarities.score_weights(0.13, 7, 20), expected, rtol=1e-11)
    assert similarities.score_weights(0.13, 7, 20) is similarities.score_weights(0.13, 7, 20)
    assert similarities.score_weights(0.13, 0, 20).shape == (20, 20)
    assert similarities.rows(0, 9).shape == (9, 9)


def test_query_blocks_are_small_and_complete(lab: SimpleNamespace) -> None:
    stream = lab.recall_stream(0, items=10)
    with patch.object(similarity, "QUERY_BLOCK_ELEMENTS", 3 * len(stream)):
        blocks = list(Similarities(stream).query_blocks(stream.phases[0]))
    assert [(block.start, len(block)) for block in blocks] == [(0, 3), (3, 3), (6, 3), (9, 1)]


@pytest.mark.parametrize("name", ["recency", "streaming_llm", "random_eviction", "h2o", "tova", "item_lru", "item_lfu"])
def test_bounded_memories_need_room_for_the_budget_and_a_newcomer_at_most(lab: SimpleNamespace, name: str) -> None:
    memory = lab.mechanism(name, {"budget": 9})
    memory.start(lab.stream(np.ones((5000, 2))), np.random.default_rng(0))
    assert memory.slots.tokens.shape in ((1, 9), (1, 10))
    of_the_stream = ("stream", "token_values", "items", "draws", "configs")
    state = dict(vars(memory))
    for value in vars(memory).values():
        state |= value._asdict() if hasattr(value, "_asdict") else {}
    own = [value for key, value in state.items() if key not in of_the_stream and not hasattr(value, "_asdict")]
    arrays = [np.asarray(part) for value in own for part in (value if isinstance(value, tuple) else (value,))]
    assert max(array.size for array in arrays) <= 10


def test_streams_may_be_read_only(lab: SimpleNamespace) -> None:
    """As arrays are that come from shared memory; kernels must not compile anew for them."""
    from models.allocation import allocate

    stream = lab.recall_stream(0, items=10)
    before = lab.read_one("dp_cache", stream)
    for array in (stream.keys, stream.values, stream.items, stream.phases[0].queries, stream.phases[0].answers):
        array.flags.writeable = False
    compiled = len(allocate.compiled().signatures)
    assert lab.read_one("dp_cache", stream).tokens == before.tokens
    assert len(allocate.compiled().signatures) == compiled

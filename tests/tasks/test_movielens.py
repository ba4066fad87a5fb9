"""MovieLens: facts of the real recordings, and the readers on small files of the same form."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from models.stream import Floats
from tasks.catalogue import CORPORA
from tasks.workloads.movielens import MovieLens, MovieLensConfig

DATA = Path(os.environ.get("SLOTSWEEP_DATA") or "/nonexistent", "movielens")
Leader = Callable[[Floats, float], list[int]]


def needs(dataset: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (DATA / dataset).is_dir(), reason=f"SLOTSWEEP_DATA has no movielens/{dataset}")


@pytest.fixture(scope="module")
def first_ten_thousand() -> MovieLens:
    return MovieLens(MovieLensConfig(dataset="ml-latest-small", events=10_000))


@pytest.mark.data
@needs("ml-latest-small")
@pytest.mark.parametrize(
    ("events", "distinct"), [(1000, 270), (2000, 346), (5000, 526), (10_000, 1388), (30_000, 3545), (100_000, 9624)]
)
def test_distinct_movies_in_time_order(events: int, distinct: int) -> None:
    stream = MovieLens(MovieLensConfig(events=events, dim=1)).stream(0, 0)
    assert len(stream) == events
    assert stream.distinct == distinct


@pytest.mark.data
@needs("ml-latest-small")
def test_the_whole_recording_by_default() -> None:
    stream = MovieLens(MovieLensConfig(dim=1)).stream(0, 0)
    assert (len(stream), stream.distinct) == (100_836, 9724)
    assert MovieLens.default_episodes == 1


@pytest.mark.data
@needs("ml-latest-small")
def test_genres_and_chance_of_the_first_ten_thousand(first_ten_thousand: MovieLens) -> None:
    stream = first_ten_thousand.stream(0, 0)
    (phase,) = stream.phases
    shares = np.bincount(phase.answers) / 1388
    assert np.count_nonzero(shares) == 18
    assert shares.max() == pytest.approx(0.30, abs=0.005)
    assert stream.chance == pytest.approx(sum(share**2 for share in shares.tolist()))
    np.testing.assert_array_equal(phase.asked, np.arange(1388))


@pytest.mark.data
@needs("ml-latest-small")
def test_a_seed_draws_keys_and_nothing_else(first_ten_thousand: MovieLens) -> None:
    a, b = first_ten_thousand.stream(0, 0), first_ten_thousand.stream(1, 0)
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.items, b.items)
    np.testing.assert_array_equal(a.phases[0].answers, b.phases[0].answers)
    assert np.abs(np.einsum("ij,ij->i", a.keys, b.keys)).mean() < 0.15


@pytest.mark.data
@needs("ml-latest-small")
def test_a_slot_a_movie_recalls_almost_every_genre(first_ten_thousand: MovieLens, leader: Leader) -> None:
    """The rule of the Dirichlet-process cache at similarity 0.5, written down a second time."""
    stream = first_ten_thousand.stream(0, 0)
    slots = leader(stream.keys, 0.5)
    assert 1370 <= len(slots) <= 1388
    (phase,) = stream.phases
    nearest = stream.values[slots][(phase.queries @ stream.keys[slots].T).argmax(axis=1)]
    assert (nearest == phase.answers).mean() >= 0.97


@pytest.mark.data
@needs("ml-latest-small")
def test_the_last_1600_ratings_cover_what_recency_can_recall(first_ten_thousand: MovieLens) -> None:
    stream = first_ten_thousand.stream(0, 0)
    covered = len(np.unique(stream.items[-1600:])) / 1388
    assert covered + (1 - covered) * stream.chance == pytest.approx(0.70, abs=0.02)


@pytest.mark.data
@needs("ml-100k")
@pytest.mark.parametrize(("events", "distinct"), [(1000, 575), (10_000, 1123), (30_000, 1388), (100_000, 1682)])
def test_distinct_movies_of_ml_100k(events: int, distinct: int) -> None:
    stream = MovieLens(MovieLensConfig(dataset="ml-100k", events=events, dim=1)).stream(0, 0)
    assert stream.distinct == distinct


@pytest.mark.data
@needs("ml-100k")
@pytest.mark.parametrize(
    ("similarity", "ratio", "within"),
    [
        (0.2, 0.063, 0.006),
        (0.3, 0.309, 0.02),
        (0.4, 0.886, 0.02),
        (0.5, 0.999, 0.003),
        (0.8, 1.0, 0.001),
        (0.9, 2.39, 0.08),
    ],
)
def test_slots_per_movie_follow_the_published_curve(
    leader: Leader, similarity: float, ratio: float, within: float
) -> None:
    stream = MovieLens(MovieLensConfig(dataset="ml-100k")).stream(0, 0)
    assert len(leader(stream.keys, similarity)) / stream.distinct == pytest.approx(ratio, abs=within)


def test_asking_for_more_ratings_than_there_are_is_an_error() -> None:
    with pytest.raises(ValidationError, match="ml-100k has 100,000 ratings; events asks for 100,001"):
        MovieLensConfig(dataset="ml-100k", events=100_001)


def given(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, files: dict[str, bytes]) -> None:
    """Let `files` stand for the data set `name`."""
    corpus = CORPORA[name]
    sums = {member: hashlib.sha256(content).hexdigest() for member, content in files.items()}
    monkeypatch.setitem(CORPORA, name, replace(corpus, files=sums))
    monkeypatch.setenv("SLOTSWEEP_DATA", str(folder))
    (folder / corpus.folder).mkdir(parents=True)
    for member, content in files.items():
        (folder / corpus.folder / member).write_bytes(content)


def test_ml_latest_small_is_read_in_time_order_with_ties_in_file_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ratings = "userId,movieId,rating,timestamp\r\n1,30,4.0,200\r\n1,10,3.5,100\r\n2,20,1.0,200\r\n2,10,5.0,50\r\n"
    movies = (
        'movieId,title,genres\n10,"Comma, The (1999)",War|Drama\n20,Naïve,(no genres listed)\n'
        "30,Plain,Drama\n40,Never rated,Comedy\n"
    )
    given(
        monkeypatch,
        tmp_path,
        "ml-latest-small",
        {"ratings.csv": ratings.encode(), "movies.csv": movies.encode()},
    )
    stream = MovieLens(MovieLensConfig(dim=4)).stream(0, 0)
    assert stream.items.tolist() == [10, 10, 30, 20]
    # Genres by name: (no genres listed), Comedy, Drama, War.
    assert stream.values.tolist() == [3, 3, 2, 0]
    assert stream.phases[0].items.tolist() == [10, 20, 30]
    assert stream.phases[0].answers.tolist() == [3, 0, 2]
    assert stream.classes == 4
    assert stream.chance == pytest.approx(1 / 3)
    assert MovieLens(MovieLensConfig(dim=4, events=3)).stream(0, 0).items.tolist() == [10, 10, 30]


def test_ml_100k_takes_the_first_flag_that_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def item(movie: int, title: str, *flags: int) -> str:
        genres = "|".join("1" if flag in flags else "0" for flag in range(19))
        return f"{movie}|{title}|01-Jan-1995||http://example.org/?{movie}|{genres}\n"

    items = item(1, "Café (1995)", 5, 8) + item(2, "unknown", 0) + item(3, "West", 18)
    data = "9\t3\t5\t300\n9\t1\t4\t100\n8\t2\t1\t200\n8\t1\t1\t300\n"
    given(monkeypatch, tmp_path, "ml-100k", {"u.data": data.encode(), "u.item": items.encode("latin-1")})
    stream = MovieLens(MovieLensConfig(dataset="ml-100k", dim=4)).stream(0, 0)
    assert stream.items.tolist() == [1, 2, 3, 1]
    assert stream.values.tolist() == [5, 0, 18, 5]
    assert stream.classes == 19

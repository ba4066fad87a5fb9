"""Files such as users have, for tests."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

ROWS = 60
GENRES = ("drama", "comedy", "noir")


def own_files(folder: Path) -> dict[str, str]:
    """Paths of small files of each form: the same rows of users, movies, genres and times, a movie of one genre."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(5)
    movies = rng.integers(12, size=ROWS)
    columns = {
        "user": [f"user {user}" for user in rng.integers(4, size=ROWS)],
        "movie": [f"m{movie}" for movie in movies],
        "genre": [GENRES[movie % 3] for movie in movies],
        "when": rng.permutation(ROWS).tolist(),
    }
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    parquet.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=16)
    lines = [
        f"{t} INFO {user} watches {movie}\n"
        for t, user, movie in zip(range(ROWS), columns["user"], columns["movie"], strict=True)
    ]
    (folder / "events.log").write_text("".join(lines), encoding="utf-8")
    return {"log": str(folder / "events.log"), "csv": str(folder / "rows.csv"), "parquet": str(folder / "rows.parquet")}

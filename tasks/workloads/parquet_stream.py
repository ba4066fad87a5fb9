"""A Parquet file of the user's own as a stream: one row a token."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tasks.own import TableConfig, TableWorkload
from tasks.tables.parquet_table import ParquetTable
from tasks.text.source import known
from tasks.workload import workload


def _parquet_file(path: str) -> str:
    if not path.endswith((".parquet", ".pq")):
        raise ValueError(f"{path} is none of .parquet, .pq")
    return path


ParquetPath = Annotated[
    str, AfterValidator(_parquet_file), AfterValidator(known), Field(description="Parquet file: .parquet or .pq")
]


class ParquetStreamConfig(TableConfig):
    """Recall what your own rows say: one row a token, an item a key, its class a value."""

    name: Literal["parquet_stream"] = "parquet_stream"
    path: ParquetPath

    def table(self) -> ParquetTable:
        return ParquetTable(self.path)


@workload(ParquetStreamConfig)
class ParquetStream(TableWorkload[ParquetStreamConfig]):
    """Rows of a Parquet file, read row group by row group."""

    @classmethod
    def rows(cls, config: ParquetStreamConfig) -> int:
        return config.table().rows()

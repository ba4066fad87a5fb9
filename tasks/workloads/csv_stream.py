"""A CSV file of the user's own as a stream: one row a token."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tasks.own import TableConfig, TableWorkload
from tasks.tables.columns import Encoding
from tasks.tables.csv_table import CsvTable, csv_lines
from tasks.text.source import known
from tasks.workload import workload


def _csv_file(path: str) -> str:
    suffixes = (".csv", ".tsv", ".txt")
    if not path.removesuffix(".gz").endswith(suffixes):
        raise ValueError(f"{path} is none of {', '.join(suffixes)}, after which .gz may follow")
    return path


def _delimiter(character: str | None) -> str | None:
    if character is not None and character in '"\r\n':
        raise ValueError("quotes and ends of lines part no cells")
    return character


CsvPath = Annotated[
    str,
    AfterValidator(_csv_file),
    AfterValidator(known),
    Field(description="CSV whose first row names its columns: .csv, .tsv or .txt; .gz may follow"),
]


class CsvStreamConfig(TableConfig):
    """Recall what your own rows say: one row a token, an item a key, its class a value."""

    name: Literal["csv_stream"] = "csv_stream"
    path: CsvPath
    delimiter: Annotated[str | None, AfterValidator(_delimiter)] = Field(
        None,
        min_length=1,
        max_length=1,
        description="character between cells; by default whichever of , ; | and tab the first line has most",
    )
    encoding: Encoding | None = Field(None, description="of the text; by default UTF-8, or what its first bytes say")

    def table(self) -> CsvTable:
        return CsvTable(self.path, self.delimiter, self.encoding)


@workload(CsvStreamConfig)
class CsvStream(TableWorkload[CsvStreamConfig]):
    """Rows of a CSV file. Lines count as rows where a file is long, but for the first."""

    @classmethod
    def rows(cls, config: CsvStreamConfig) -> int:
        return csv_lines(config.table()) - 1

"""Tables of results as their readers find them."""

import csv
from pathlib import Path
from typing import Any


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file, all texts, or of a Parquet file or a folder of them."""
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows

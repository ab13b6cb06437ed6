"""A file to which a study appends what it measured, task by task, so that one that was stopped goes on."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

from zoosim.core.errors import ConfigError

Row = TypeVar("Row")


class ResultsFile(Generic[Row]):
    """Rows by task: the rows of a task are one line of JSON."""

    def __init__(self, path: Any, row: type[Row], key: Sequence[str]) -> None:
        """Read what is there.

        Args:
            path: The file; None to keep nothing.
            row: The dataclass of a row.
            key: The fields of a row that name its task.

        Raises:
            ConfigError: the file holds something else.
        """
        self._path = None if path is None else Path(path)
        self._key = key
        self._rows: dict[tuple[Any, ...], list[Row]] = {}
        if self._path is None or not self._path.exists():
            return
        try:
            for line in self._path.read_text(encoding="utf-8").splitlines():
                self._note([row(**fields) for fields in json.loads(line)])
        except (ValueError, TypeError) as error:
            expected = "expected what a run of this study wrote; name another file"
            raise ConfigError(f"results: got {path}, which cannot be read ({error}), {expected}") from None

    def rows(self, *task: Any) -> list[Row] | None:
        """Return the rows of a task; None where it is not done yet."""
        return self._rows.get(task)

    def add(self, rows: list[Row]) -> list[Row]:
        """Keep the rows of a task, and return them."""
        self._note(rows)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([asdict(row) for row in rows]) + "\n")  # type: ignore[call-overload]
        return rows

    def _note(self, rows: list[Row]) -> None:
        self._rows[tuple(getattr(rows[0], name) for name in self._key)] = rows

"""The launches that a rehearsal has played, in a file to which each is added once it is over."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoosim.core.errors import ConfigError
from zoosim.core.files import read_text, write_text
from zoosim.monitoring.launch import State
from zoosim.rehearsal.launches.outcome import Outcome

TERMS, LAUNCHES, PLAYED = "terms.json", "launches.jsonl", "launches.part.jsonl"
"""Files of what launches rest on; of all launches, one in a line; and of those so far, while more are played."""


class LaunchStore:
    """The launches of a rehearsal in a folder; one that was interrupted goes on with them.

    `LAUNCHES` is there once all that were asked for are played, whole.
    """

    def __init__(self, folder: Path, terms: Mapping[str, Any]) -> None:
        """Open the folder.

        Args:
            folder: A folder that is there.
            terms: What the launches rest on, as plain values: with others none of the folder's would count.

        Raises:
            ConfigError: the folder holds launches on other terms.
        """
        self._whole = folder / LAUNCHES
        self._part = folder / PLAYED
        self.outcomes: dict[int, Outcome] = {}
        written = json.dumps(terms, indent=1, sort_keys=True) + "\n"
        held = next((file for file in (self._part, self._whole) if file.is_file()), None)
        if held is not None and (folder / TERMS).is_file():
            if read_text(folder / TERMS) != written:
                raise ConfigError(
                    f"--out: {folder} holds launches of another log, model, plan or other options; name another folder"
                )
            self._load(held)
        else:
            write_text(folder / TERMS, written)

    def add(self, outcome: Outcome) -> None:
        """Add a launch, so that it is there whatever comes next."""
        if not self._part.is_file():
            write_text(self._part, "".join(map(_line_of, self.outcomes.values())))
        with self._part.open("a", encoding="utf-8") as file:
            file.write(_line_of(outcome))
            file.flush()
            os.fsync(file.fileno())
        self.outcomes[outcome.number] = outcome

    def finish(self) -> None:
        """Put the launches where all are, once all that were asked for are played."""
        if self._part.is_file():
            self._part.replace(self._whole)

    def _load(self, file: Path) -> None:
        """Read the launches; the last line may have been cut short, and is dropped then."""
        lines = read_text(file).splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        try:
            for line in whole:
                outcome = _outcome_of(json.loads(line))
                self.outcomes[outcome.number] = outcome
        except (ValueError, TypeError, KeyError):
            raise ConfigError(f"--out: {file} is damaged; delete it or name another folder") from None
        if len(whole) < len(lines):
            write_text(file, "".join(whole))


def _line_of(outcome: Outcome) -> str:
    return json.dumps(outcome._asdict()) + "\n"


def _outcome_of(entry: Mapping[str, Any]) -> Outcome:
    values: dict[str, Any] = {**entry, "state": State(entry["state"])}
    for name in ("starts", "shares"):
        values[name] = tuple(entry[name])
    return Outcome(**values)

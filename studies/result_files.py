"""Result files of the leaderboard: one JSON file per learner, with what it is worth in each world by seed."""

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from zoosim.core.config import Strict, build
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.files import make_folder, read_text, write_text

MOST_BYTES = 1_000_000
"""The largest result file that is read."""

MOST_FILES = 1_000

# Pages draw names as text of figures, which takes some HTML: letters, digits and a few marks alone.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 .,+()/_-]{0,39}$")]
Percent = Annotated[float, Field(ge=0, le=100.01)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class WorldResult(Strict):
    """What a learner reached in a world by seed: its exact worth in % of the optimum, and seconds to learn."""

    percent: list[Percent] = Field(min_length=1, max_length=1_000)
    seconds: list[Seconds] = Field(min_length=1, max_length=1_000)


class Result(Strict):
    """A result file: who learned, from what, and what it reached in each world with each of the seeds."""

    format: Literal[1]
    learner: Name
    library: Name
    version: Name
    budget: Name
    seeds: list[Seed] = Field(min_length=1, max_length=1_000)
    worlds: dict[Name, WorldResult] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _has_all_seeds(self) -> "Result":
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed is there twice")
        for name, world in self.worlds.items():
            for what, values in (("percent", world.percent), ("seconds", world.seconds)):
                if len(values) != len(self.seeds):
                    raise ValueError(f"worlds.{name}.{what}: got {len(values)} values for {len(self.seeds)} seeds")
        return self


def write_result(result: Result, folder: str | os.PathLike[str]) -> Path:
    """Write a result to `folder` under the learner's name; return the file.

    Worlds that the file there has, and the result has not, stay in it if all else is the same: version, budget, seeds.

    Raises:
        DataError: as `check_place`.
    """
    path = check_place(result, folder)
    worlds = result.worlds
    if path.exists():
        before = _read(path)
        if before.model_copy(update={"worlds": worlds}) == result:
            worlds = {**before.worlds, **worlds}
    write_text(path, json.dumps(result.model_copy(update={"worlds": worlds}).model_dump()) + "\n")
    return path


def check_place(result: Result, folder: str | os.PathLike[str]) -> Path:
    """Return the file of a result in `folder`, which is made if it is not there.

    Raises:
        DataError: the file is no result, or that of another learner, whose name has the same letters and digits.
    """
    make_folder(Path(folder))
    path = Path(folder) / f"{re.sub(r'[^a-z0-9]+', '-', result.learner.lower()).strip('-')}.json"
    if path.exists() and (before := _read(path)).learner != result.learner:
        raise DataError(
            f"{path}: is the file of {before.learner!r}, got {result.learner!r}; take another name or folder"
        )
    return path


def read_results(folder: str | os.PathLike[str]) -> list[Result]:
    """Return the results of a folder, by the names of its files.

    Raises:
        DataError: the folder has no result files or too many, or one of them is no result, which is named.
    """
    try:
        files = sorted(Path(folder).glob("*.json"))
    except OSError as error:
        raise DataError(f"leaderboard: cannot read {folder}: {error.strerror}") from None
    if not 0 < len(files) <= MOST_FILES:
        raise DataError(f"leaderboard: {folder} has {len(files):,} files *.json, expected 1 to {MOST_FILES:,} results")
    results: dict[str, Result] = {}
    for file in files:
        result = _read(file)
        if result.learner in results:
            raise DataError(f"{file}: learner: {result.learner!r} is in another file, too; give each its own name")
        results[result.learner] = result
    return list(results.values())


def _read(file: Path) -> Result:
    """Return what a file holds; raises `DataError`, which names it."""
    try:
        values = json.loads(read_text(file, MOST_BYTES), parse_constant=_refuse)
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise DataError(f"{file}: expected an object with learner, library, seeds and worlds")
    try:
        result: Result = build(Result, values, file.name)
    except ConfigError as error:
        raise DataError(f"{file.parent}: {error}") from None
    return result


def _refuse(constant: str) -> Any:
    raise ValueError(f"got {constant}, expected a number")

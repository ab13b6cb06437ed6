"""The files that the trials of a run read: workers on other machines do not have them."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from zoosim.arena.plan import Plan
from zoosim.core.files import resolved
from zoosim.core.sources import PACKAGE
from zoosim.policies.files import file_and_class
from zoosim.policies.registry import PolicyEntry


def run_files(plan: Plan, entries: Iterable[PolicyEntry]) -> dict[str, Path]:
    """Return the files of the world and of policies: those named in parameters, too, and users' modules beside theirs.

    Args:
        plan: The plan.
        entries: The policies.

    Returns:
        The whole path of each file, by what the run calls it.
    """
    return _files_named([plan.experiment.kind, *_texts(plan.params)]) | policy_files(entries)


def policy_files(entries: Iterable[PolicyEntry]) -> dict[str, Path]:
    """Return the files of policies alone; see `run_files`."""
    named = []
    for entry in entries:
        named += [str(entry.source), getattr(entry, "saved_class", ""), *_texts(entry.params)]
    return _files_named(named)


def _files_named(texts: Iterable[str]) -> dict[str, Path]:
    found = {}
    for text in texts:
        for name in _files_in(text):
            path = resolved(name)
            if path.suffix and path.is_file():
                found[name] = path
                found |= {str(beside): beside for beside in _modules_beside(path)}
    return found


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, BaseModel):
        yield from _texts(dict(value))
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _files_in(text: str) -> Iterator[str]:
    """Yield what may be files in the name of a policy or a world: FILE, FILE.py:Class, FILE@FILE.py:Class."""
    for part in file_and_class(text):
        if part:
            yield part
            yield part.rpartition(":")[0]


def _modules_beside(file: Path) -> Iterator[Path]:
    """Yield the files of modules that a user's file has found in its own folder."""
    if file.suffix != ".py":
        return
    for name, module in list(sys.modules.items()):
        top, *inner = name.split(".")
        place = file.parent.joinpath(top, *inner)
        origin = getattr(module, "__file__", None)
        if top != PACKAGE and origin in (f"{place}.py", str(place / "__init__.py")):
            yield Path(origin)

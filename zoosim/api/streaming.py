"""Whether the rows of a log are read in blocks, so that they need not fit in memory."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown


def is_streamed(
    log: Any,
    stream: bool | None,
    in_memory: Mapping[str, Any],
    policies: Mapping[str, Any],
    learners: Mapping[str, Any],
) -> bool:
    """Return whether to read a log in blocks; raises `ConfigError` where that is asked for and cannot be.

    Args:
        log: The log as it was given.
        stream: Whether it is asked for; None to have large files read so.
        in_memory: Options by name that go with logs in memory alone.
        policies: What is judged, by name.
        learners: Policies that are to learn from it, by name: built-in names, `FILE.py:Class`, classes or entries.
    """
    if stream is False:
        return False
    needs = [name for name, value in in_memory.items() if value not in (None, False)]
    is_file_of_rows = isinstance(log, str | os.PathLike) and os.fspath(log).endswith(".parquet")
    if stream:
        if not is_file_of_rows:
            raise ConfigError(f"stream: got {shown(log)}, expected a Parquet file of Records; leave it out")
        needs += [f"what policy {name} learns by" for name in _learning_in_memory(learners)]
        if needs:
            raise ConfigError(f"stream: {needs[0]} goes with a log in memory alone; leave out one of them")
        return True
    asks_by_rows = any(
        hasattr(policy, "__array__") or (callable(policy) and not isinstance(policy, type))
        for policy in policies.values()
    )
    if not is_file_of_rows or needs or asks_by_rows or not Path(log).is_file():
        return False
    from zoosim.logs.stream import is_too_large

    return is_too_large(Path(log)) and not _learning_in_memory(learners)


def _learning_in_memory(learners: Mapping[str, Any]) -> list[str]:
    """Return the names of the policies that learn from all rows at once."""
    from zoosim.policies.base import learns_by_blocks
    from zoosim.policies.registry import PolicyEntry, find_class

    classes = {
        name: given.cls if isinstance(given, PolicyEntry) else find_class(given) for name, given in learners.items()
    }
    return [name for name, cls in classes.items() if cls.learns and not learns_by_blocks(cls)]

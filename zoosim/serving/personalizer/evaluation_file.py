"""The file of an evaluation: JSON, sealed, so that a damaged one is no other one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoosim.core.errors import DataError
from zoosim.core.files import atomic, read_content
from zoosim.core.seal import BLANK, KEY, seal_file, seal_holds


def write_evaluation(path: Path, evaluation: Mapping[str, Any]) -> None:
    """Write an evaluation, whole or not at all; raises `OSError`."""
    with atomic(path) as temporary:
        temporary.write_text(json.dumps({**evaluation, KEY: BLANK}, allow_nan=False), encoding="utf-8")
        seal_file(temporary)


def read_evaluation(path: Path) -> dict[str, Any]:
    """Return an evaluation; raises `OSError`, or `DataError` for a file that differs from what was written."""
    content = read_content(path)
    if not seal_holds(content):
        raise DataError(f"{path}: differs from what the service wrote; delete it")
    evaluation = dict(json.loads(content))
    del evaluation[KEY]
    return evaluation

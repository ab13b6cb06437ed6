"""The file of an evaluation: JSON, sealed, so that a damaged one is no other one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoosim.core.errors import DataError
from zoosim.core.files import atomic, read_content
from zoosim.core.seal import BLANK, KEY, SealState, seal_state, sealed


def write_evaluation(path: Path, evaluation: Mapping[str, Any]) -> None:
    """Write an evaluation, whole or not at all; raises `OSError`."""
    content = json.dumps({**evaluation, KEY: BLANK}, allow_nan=False).encode()
    with atomic(path) as temporary:
        temporary.write_bytes(sealed(content))


def read_evaluation(path: Path) -> dict[str, Any]:
    """Return an evaluation; raises `OSError`, or `DataError` for a file that differs from what was written."""
    content = read_content(path)
    if seal_state(content) != SealState.WHOLE:
        raise DataError(f"{path}: differs from what the service wrote; delete it")
    evaluation = dict(json.loads(content))
    del evaluation[KEY]
    return evaluation

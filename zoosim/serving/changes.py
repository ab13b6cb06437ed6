"""Settings that were changed while a service ran: they outlast a restart, and win over its file and environment."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoosim.core.config import build
from zoosim.core.errors import DataError
from zoosim.core.files import atomic
from zoosim.serving.settings import Settings

CHANGES = "changes.json"
DELETED = "deleted"
"""The part of the changes that says up to where the log is deleted."""


def read_changes(folder: Path) -> dict[str, Any]:
    """Return what was changed in a service's folder, by part; raises `DataError` for a broken file."""
    path = folder / CHANGES
    if not path.exists():
        return {}
    try:
        changes = json.loads(path.read_text())
    except (OSError, ValueError):
        changes = None
    if not isinstance(changes, dict) or not all(isinstance(part, dict) for part in changes.values()):
        raise DataError(f"{path}: cannot be read; restore a backup, or remove it to go on without changes")
    return changes


def write_changes(folder: Path, part: str, values: Mapping[str, Any]) -> None:
    """Note what a part of the changes is from now on."""
    changes = {**read_changes(folder), part: dict(values)}
    with atomic(folder / CHANGES) as temporary:
        temporary.write_text(json.dumps(changes, indent=1, sort_keys=True))


def changed_settings(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Return settings with changes; raises `ConfigError` for what they cannot be."""
    values = {name: getattr(settings, name) for name in settings.model_fields_set}
    changed: Settings = build(Settings, {**values, **changes}, "changed settings of the service")
    return changed

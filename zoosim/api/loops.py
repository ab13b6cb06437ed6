"""Add, remove and list the loops of a running service."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoosim.core.calls import public_call
from zoosim.core.config import build, read_yaml
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.extras import needs_extra
from zoosim.core.files import MOST_BYTES, read_content
from zoosim.core.parameters import unknown

LIST, ADD, REMOVE = "list", "add", "remove"
ACTIONS = (LIST, ADD, REMOVE)
"""What may be done with the loops of a service; `list` changes nothing."""

URL = "http://127.0.0.1:8100"
TIMEOUT = 120.0
"""Seconds that a change may take: a model is sent, loaded and compiled, or what was taken in last is learned."""


@public_call
def loops(
    action: str = LIST,
    name: str | None = None,
    *,
    url: str = URL,
    model: str | os.PathLike[str] | None = None,
    settings: str | os.PathLike[str] | Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """List the loops of a running service, add one, or remove one; requests go on meanwhile.

    Args:
        action: "list", "add" or "remove".
        name: The loop to add or to remove.
        url: Where the service listens. Its key is read from the variable `ZOOSIM_SERVE_KEY`.
        model: The file of the model that a new loop begins with. Default: that of the log in its folder; where there is
            none, one grows from its requests.
        settings: Settings of the new loop, a YAML file or a mapping; those of the service hold for the others.

    Returns:
        `loops`, of each its `name`, `state`, a `sentence` on it, its `path` and its `folder`; and `log`, where the log
        of a loop that was removed is kept, else None.

    Raises:
        ConfigError: the action is unknown, or lacks what it needs, or a setting is invalid.
        DataError: the file cannot be read.
        ServiceError: the service cannot be reached, or refuses the change.
    """
    if action not in ACTIONS:
        raise ConfigError(unknown("action: unknown", action, list(ACTIONS)))
    _check_options(action, name, {"model": model, "settings": settings})
    needs_extra("loops", "serve")
    from zoosim.serving.client import KEY
    from zoosim.serving.loops.client import LoopsClient

    values = {} if settings is None else _settings(settings)
    content = None if model is None else _content(model)
    with LoopsClient(url, os.environ.get(KEY, ""), TIMEOUT) as client:
        log = None
        if action == ADD:
            client.loops()  # so that no model is sent to a service that takes no loops
            client.add(str(name), content, values)
        elif action == REMOVE:
            log = client.remove(str(name))
        return {"loops": client.loops(), "log": log}


def _check_options(action: str, name: str | None, of_new: Mapping[str, Any]) -> None:
    """Refuse what an action lacks or does not take: `ConfigError`."""
    if action == LIST and name is not None:
        raise ConfigError(f"list: got {name}, expected no name")
    if action != LIST and name is None:
        raise ConfigError(f"{action}: got no name, expected that of a loop, such as home")
    for option, value in of_new.items():
        if action != ADD and value is not None:
            raise ConfigError(f"{action}: got a value of {option}, which a new loop alone has; leave it out")


def _settings(settings: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a loop; raises `ConfigError` for what they cannot be."""
    from zoosim.serving.settings import Settings, read_loop_settings

    label = "settings of the loop" if isinstance(settings, Mapping) else os.fspath(settings)
    values = dict(settings) if isinstance(settings, Mapping) else read_yaml(Path(settings))
    read_loop_settings(build(Settings, {}, label), values, Path(), label)
    return values


def _content(model: str | os.PathLike[str]) -> bytes:
    try:
        return read_content(model, MOST_BYTES)
    except OSError as error:
        raise DataError(f"{model}: cannot be read ({error.strerror}); name the file of a model") from None

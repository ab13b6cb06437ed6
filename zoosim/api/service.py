"""Put a model behind an HTTP API."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zoosim.core.errors import ConfigError


def run_service(
    model: str | os.PathLike[str] | None,
    config: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    announce: Callable[[str], None] = lambda line: None,
) -> None:
    """Serve a model until the process is told to stop; `docs/serving.md` describes the API.

    Args:
        model: A file that `train` wrote; None for the model that the store knows from an earlier start;
            in a new store one grows from the first requests.
        config: A YAML file of settings.
        settings: Settings that override the file, and variables of the environment.
        announce: Called with a line once requests are answered.

    Raises:
        ConfigError: a setting is invalid, or the store or the port cannot be used.
        DataError: the model or the log of the store is broken.
    """
    from zoosim.serving.server import serve
    from zoosim.serving.settings import read_settings

    read = read_settings(config, os.environ, settings or {})
    if read.loops and model is not None:
        raise ConfigError(f"loops: got the model {model} beside them; add a loop with it (zoosim loops add)")
    serve(read, None if model is None else Path(model), announce)

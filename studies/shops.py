"""The search shop of a study: its own, or changed by a file."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoosim.core.config import read_yaml
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import unknown
from zoosim.core.search_config import SearchConfig
from zoosim.worlds.search.tables import read_search_config

ShopChanges = str | os.PathLike[str] | Mapping[str, Any] | None
"""A YAML file, or what it holds; None: no changes."""

KEYS = ("env", "run", "policies", "parameters", "experiment", "format", "config_hash", "files")
SHOP: dict[str, Any] = {"n_products": 1_000, "a_max": 0.5}
"""The shop in which boosts are studied."""


def read_shop(changes: ShopChanges, shop: Mapping[str, Any] = SHOP) -> SearchConfig:
    """Return `shop`, changed by the `env` of a file as `zoosim run --config` takes it; its other parts do not count.

    Raises `ConfigError` or `DataError`.
    """
    if changes is None:
        return read_search_config(shop)
    given = dict(changes) if isinstance(changes, Mapping) else read_yaml(Path(changes))
    for key in given:
        if key not in KEYS:
            raise ConfigError(unknown("config: unknown key", str(key), ["env"]))
    env = given.get("env") or {}
    if not isinstance(env, Mapping):
        raise ConfigError(f"config: env: got {env!r}, expected keys of a search shop, such as n_products: 500")
    return read_search_config({**shop, **env})

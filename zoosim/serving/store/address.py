"""Address of a service's log, read from the text of the setting `store`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from zoosim.core.errors import ConfigError
from zoosim.core.extras import needs_extra
from zoosim.core.parameters import shown, unknown

if TYPE_CHECKING:  # who asks whether a folder is a service's needs none of what services do
    from zoosim.serving.store.base import Store

FORMS = "sqlite:FOLDER or redis://HOST:PORT/DB?name=LOOP&folder=FOLDER"
LOG = "log.db"
"""The file of a log in SQLite, in the folder of its service."""

DEFAULTS = {"name": "zoosim", "folder": "zoosim-service"}

SERVERS = ("redis://", "rediss://")
"""Prefixes of the addresses of logs on servers."""


class Address(NamedTuple):
    """Address of a log.

    Attributes:
        folder: The folder of the service on this machine, for models, snapshots and a log in SQLite.
        server: The URL of the Redis or Valkey server that has the log; empty for SQLite.
        loop: What the log is called on the server.
    """

    folder: Path
    server: str = ""
    loop: str = ""

    def text(self) -> str:
        """Return in words where everything lies."""
        if not self.server:
            return f"log and models in {self.folder}"
        return f"{log_name(self.server, self.loop)}, models in {self.folder}"

    @property
    def source(self) -> str:
        """Name of the log for tools that read it: its address, without a password."""
        if not self.server:
            return str(self.folder)
        url = urlsplit(self.server)
        host = url.netloc.rpartition("@")[2]
        return url._replace(netloc=host, query=urlencode({"name": self.loop})).geturl()


def parse_address(text: str) -> Address:
    """Return where a setting says that the log lies; raises `ConfigError`."""
    kind, _, where = text.partition(":")
    if kind == "sqlite" and where:
        return Address(Path(where))
    try:
        url = urlsplit(text)
        is_server = url.scheme in ("redis", "rediss") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_server = False
    if not is_server or not (url.path.strip("/") or "0").isdigit():
        # The text may hold a password, and a message may end up in a log file.
        raise ConfigError(f"store: got {shown(_without_password(text))}, expected {FORMS}")
    options = dict(parse_qsl(url.query))
    for name in options:
        if name not in DEFAULTS:
            raise ConfigError(unknown("store: unknown option", name, list(DEFAULTS)))
    values = {**DEFAULTS, **options}
    if not values["name"].replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"store: got the name {shown(values['name'])}, expected letters, digits, - and _")
    return Address(Path(values["folder"]), url._replace(query="", fragment="").geturl(), values["name"])


def find_log(source: object) -> Address | None:
    """Return where the log of a service lies that something names: its folder, or an address on a server.

    None for what names no such log; raises `ConfigError` for an address that is none.
    """
    if isinstance(source, Address):
        return source
    if isinstance(source, str) and source.startswith(SERVERS):
        return parse_address(source)
    if isinstance(source, str | os.PathLike) and (Path(source) / LOG).is_file():
        return Address(Path(source))
    return None


def log_name(server: str, loop: str) -> str:
    """Return what messages call a log on a server."""
    url = urlsplit(server)
    return f"log {loop} on {url.hostname}:{url.port or 6379}"


def open_store(address: Address, read_only: bool = False) -> "Store":
    """Open a log; raises `ConfigError`, `DataError` and `StoreError` as the store does."""
    if not address.server:
        from zoosim.serving.store.sqlite import SqliteStore

        return SqliteStore(address.folder / LOG, read_only)
    needs_extra("store: redis://", "redis")
    from zoosim.serving.store.redis import RedisStore

    return RedisStore(address.server, address.loop, read_only)


def _without_password(text: str) -> str:
    """Return an address without what stands before its @."""
    head, at, rest = text.rpartition("@")
    return f"{head.partition(':')[0]}://...@{rest}" if at else text

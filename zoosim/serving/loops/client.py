"""Add, remove and list the loops of a running service."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from zoosim.serving.client import Call, Client

_LOOPS = "/v1/loops"


class LoopsClient(Client):
    """A service with several loops, asked about all of them. Use it as a context, or `close` it."""

    def loops(self) -> list[dict[str, Any]]:
        """Return the loops: of each its `name`, `state`, what it says in a `sentence`, its `path` and its `folder`."""
        return list(self._send(Call(_LOOPS))["loops"])

    def add(self, name: str, model: bytes | None = None, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Add a loop; requests of the others go on meanwhile, and it answers once this returns.

        Args:
            name: Its name.
            model: The content of the file of its model; None for the one of its log, or to grow one from requests.
            settings: Its own settings.

        Returns:
            How it stands, as `loops` says it.

        Raises:
            ServiceError: the service refused, or could not be reached.
        """
        digest = "" if model is None else self.keep_model(model)
        return self._send(Call(_LOOPS, {"name": name, "model": digest, "settings": dict(settings or {})}))

    def remove(self, name: str) -> str:
        """Remove a loop; what it was asked is answered, and learned. Returns where its log is; raises as `add`."""
        return str(self._send(Call(f"{_LOOPS}/{quote(name, safe='')}", verb="DELETE"))["log"])

"""Access without a key: for programs of the service's machine, and for no page that a browser there shows.

A page from anywhere can let its visitor's browser send requests to 127.0.0.1. The browser says where they come from
(`Origin`, `Sec-Fetch-Site`), unless the page's own name was made to lead there (DNS rebinding): then that is `Host`.
"""

import functools
import ipaddress
import logging
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from zoosim.core.parameters import shown
from zoosim.serving.bodies import ErrorAnswer
from zoosim.serving.direct_routes import DirectApplication
from zoosim.serving.throttle import Throttle

ANY = "*"
SAME_ORIGIN = ("same-origin", "none")
"""Values of `Sec-Fetch-Site` for requests of the service's own pages, or of an address that was typed."""

logger = logging.getLogger("zoosim.serving")


class OriginCheck:
    """Refuses requests for names that are not the service's, and those of pages of other sites, with status 403."""

    def __init__(self, app: DirectApplication, host: str, hosts: str) -> None:
        """Stand before an application.

        Args:
            app: What answers the other requests.
            host: Where the service listens.
            hosts: Further names that are its own, separated by commas; `*` for any.
        """
        self._app = app
        self._listed = {name.strip().lower() for name in hosts.split(",") if name.strip()}
        self._own = {"localhost", host.lower(), *self._listed}
        self._throttle = Throttle()
        # Requests name the same few hosts again and again.
        self._is_own = functools.lru_cache(maxsize=100)(self._is_own_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        reason = self._why_not(scope) if scope["type"] == "http" else ""
        if not reason:
            await self._app(scope, receive, send)
            return
        if self._throttle.allows():
            logger.warning("refused a request: %s", reason)
        content = msgspec.json.encode(ErrorAnswer(reason))
        await Response(content, 403, media_type="application/json")(scope, receive, send)

    async def answer_directly(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the answer to a request that is answered directly; None where it is to be refused, too."""
        return None if self._why_not(scope) else await self._app.answer_directly(scope, receive)

    def _why_not(self, scope: Scope) -> str:
        """Return why a request is refused; empty where it is not."""
        host = origin = site = ""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value.decode("latin-1")
            elif name == b"origin":
                origin = value.decode("latin-1")
            elif name == b"sec-fetch-site":
                site = value.decode("latin-1")
        if host and not self._is_own(host):
            return f"host: got {shown(host)}, expected this machine; set hosts or a key to be asked by other names"
        if origin:
            is_own = netloc_of(origin) == host.lower() or self._is_listed(origin)
        else:
            is_own = not site or site in SAME_ORIGIN
        if is_own:
            return ""
        return f"origin: got a page of {shown(origin or site)}; set hosts or a key to be asked by other sites' pages"

    def _is_own_host(self, host: str) -> bool:
        """Return whether a name, with a port or without, is the service's."""
        if ANY in self._listed or host in self._own:
            return True
        name = hostname_of(f"//{host}")
        if name in self._own:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _is_listed(self, origin: str) -> bool:
        return ANY in self._listed or hostname_of(origin) in self._listed


def hostname_of(url: str) -> str:
    """Return the name of the host in an address, in small letters; empty where there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def netloc_of(url: str) -> str:
    """Return the host and the port in an address, in small letters."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""

"""Sessions of a console: who gave a key that opens it stays signed in."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from zoosim.core.errors import ZoosimError
from zoosim.serving.access import ADMIN, Access, Refused
from zoosim.serving.console.pages import Handler, page
from zoosim.serving.requests import bearer_key, read_body

SESSION = "zoosim_session"
MOST_SESSIONS = 100
SESSION_SECONDS = 12 * 3_600
LARGEST_FORM = 10_000


class Sessions:
    """Who is signed in, to all consoles of a process.

    Attributes:
        access: The keys of the process.
    """

    def __init__(self, access: Access, now: Callable[[], float]) -> None:
        """Let nobody in yet.

        Args:
            access: The keys that open the console.
            now: Returns the seconds of a clock that never goes back.
        """
        self.access = access
        self._now = now
        self._until: OrderedDict[str, float] = OrderedDict()  # until when each session holds

    async def sign_in(self, request: Request) -> Response:
        """Give who has the key a session."""
        try:
            form = parse_qs((await read_body(request, LARGEST_FORM)).decode("utf-8", "replace"))
            self.access.check(ADMIN, next(iter(form.get("key", [])), ""))
        except ZoosimError:
            return page("sign_in.html", 401, title="Sign in", sentence="This key does not open the console.")
        token = secrets.token_urlsafe(32)
        self._until[token] = self._now() + SESSION_SECONDS
        if len(self._until) > MOST_SESSIONS:
            self._until.popitem(last=False)
        response = RedirectResponse("../", 303)
        is_encrypted = request.url.scheme == "https"
        response.set_cookie(
            SESSION, token, max_age=SESSION_SECONDS, httponly=True, samesite="strict", secure=is_encrypted
        )
        return response

    def opened(self, handler: Handler) -> Handler:
        """Return a handler that asks who has no session, and no key, to sign in."""

        async def handle(request: Request) -> Response:
            until = self._until.get(request.cookies.get(SESSION, ""), 0.0)
            if until <= self._now():
                try:
                    self.access.check(ADMIN, bearer_key(request))
                except Refused:
                    is_first = request.url.path == f"{request.scope.get('root_path', '')}/"
                    words = "This service has keys."
                    return page("sign_in.html", 401, title="Sign in", sentence=words, root="" if is_first else "../")
                except ZoosimError as error:
                    return Response(str(error), 429, media_type="text/plain")
            return await handler(request)

        return handle

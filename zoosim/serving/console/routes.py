"""Routes of the console: the page, its events, one decision, and signing in where the service has keys."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jinja2
import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import ZoosimError
from zoosim.serving.access import ADMIN, Access, Refused
from zoosim.serving.console.decisions import MOST_DECISIONS, decision_lines, decisions_sentence
from zoosim.serving.console.view import arm_subject, values
from zoosim.serving.events import Choice, Row
from zoosim.serving.refusals import NotFound
from zoosim.serving.requests import bearer_key, read_body
from zoosim.serving.service import Service

SECONDS_BETWEEN_EVENTS = 2.0
"""Between two looks at what the page shows."""

SESSION = "zoosim_session"
MOST_SESSIONS = 100
SESSION_SECONDS = 12 * 3_600
LARGEST_FORM = 10_000

POLICY = "; ".join(
    [
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "img-src data:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Handler = Callable[[Request], Awaitable[Response]]


class Console:
    """The page of a service; it reads, and changes nothing."""

    def __init__(self, service: Service, access: Access, stopping: asyncio.Event) -> None:
        """Show a service.

        Args:
            service: The service.
            access: The keys that open the page.
            stopping: Set once the service is told to stop: the page's events end then.
        """
        self._service = service
        self._access = access
        self._stopping = stopping
        self._sessions: OrderedDict[str, float] = OrderedDict()  # until when each holds, by the service's clock
        self._message = b""
        self._message_at = -SECONDS_BETWEEN_EVENTS

    def routes(self) -> list[Route]:
        """Return what it answers."""
        return [
            Route("/", self._opened(self.show)),
            Route("/console/events", self._opened(self.events)),
            Route("/console/decision", self._opened(self.show_decision)),
            Route("/console/decisions", self._opened(self.list_decisions)),
            Route("/console/session", self.sign_in, methods=["POST"]),
            Route("/console/style.css", _file("style.css", "text/css")),
            Route("/console/script.js", _file("script.js", "text/javascript")),
        ]

    async def show(self, request: Request) -> Response:
        """Show the page."""
        return _page(
            "console.html",
            is_live=True,
            title=f"Console of {self._service.folder.name}",
            root="",
            now=self._now(),
            **values(self._service),
        )

    async def events(self, request: Request) -> Response:
        """Send the panels as they are, again and again."""
        headers = {**HEADERS, "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(), media_type="text/event-stream", headers=headers)

    async def _events(self) -> AsyncIterator[bytes]:
        while not self._stopping.is_set():
            yield self._newest_message()
            try:
                await asyncio.wait_for(self._stopping.wait(), SECONDS_BETWEEN_EVENTS)
            except TimeoutError:
                continue

    def _now(self) -> str:
        """Return the time of the log, which may be another one than this machine's."""
        return f"{datetime.fromtimestamp(self._service.clock.now() / MICROSECONDS, UTC):%Y-%m-%d %H:%M:%S}"

    def _newest_message(self) -> bytes:
        """Return the event with the panels, made once for all who look."""
        now = self._service.clock.passed()
        if now - self._message_at >= SECONDS_BETWEEN_EVENTS / 2:
            html = _environment().get_template("panels.html").render(values(self._service))
            self._message = b"event: panels\ndata: " + msgspec.json.encode({"now": self._now(), "html": html}) + b"\n\n"
            self._message_at = now
        return self._message

    async def show_decision(self, request: Request) -> Response:
        """Show one decision, by its id."""
        decision_id = request.query_params.get("id", "").strip()
        try:
            row, choice = await self._service.decision(decision_id)
            answer = msgspec.to_builtins(await self._service.answer(decision_id))
        except NotFound as error:
            if await self._service.logged.newest(1, decision_id):
                return await self._decisions(decision_id)
            return _page("decision.html", 404, title="No such decision", sentence=str(error))
        except ZoosimError as error:
            return _page("decision.html", 503, title="The decision cannot be read", sentence=str(error))
        return _page(
            "decision.html",
            title=f"Decision {decision_id}",
            sentence=_decided(choice, answer),
            facts=_facts(self._service, row, choice),
            chances=_chances(choice, answer),
        )

    async def list_decisions(self, request: Request) -> Response:
        """Show the newest decisions, all or those of a visitor."""
        try:
            return await self._decisions(request.query_params.get("visitor", ""))
        except ZoosimError as error:
            return _page("decisions.html", 503, title="The log cannot be read", sentence=str(error), decisions=[])

    async def _decisions(self, visitor: str) -> Response:
        lines = decision_lines(await self._service.logged.newest(MOST_DECISIONS, visitor))
        title = f"Visitor {visitor}" if visitor else "The newest decisions"
        return _page("decisions.html", title=title, sentence=decisions_sentence(lines, visitor), decisions=lines)

    async def sign_in(self, request: Request) -> Response:
        """Give who has the key a session."""
        try:
            form = parse_qs((await read_body(request, LARGEST_FORM)).decode("utf-8", "replace"))
            self._access.check(ADMIN, next(iter(form.get("key", [])), ""))
        except ZoosimError:
            return _page("sign_in.html", 401, title="Sign in", sentence="This key does not open the console.")
        token = secrets.token_urlsafe(32)
        self._sessions[token] = self._service.clock.passed() + SESSION_SECONDS
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        response = RedirectResponse("../", 303)
        is_encrypted = request.url.scheme == "https"
        response.set_cookie(
            SESSION, token, max_age=SESSION_SECONDS, httponly=True, samesite="strict", secure=is_encrypted
        )
        return response

    def _opened(self, handler: Handler) -> Handler:
        """Return a handler that asks who has no session, and no key, to sign in."""

        async def handle(request: Request) -> Response:
            until = self._sessions.get(request.cookies.get(SESSION, ""), 0.0)
            if until <= self._service.clock.passed():
                try:
                    self._access.check(ADMIN, bearer_key(request))
                except Refused:
                    root = "" if request.url.path == "/" else "../"
                    words = "This service has keys."
                    return _page("sign_in.html", 401, title="Sign in", sentence=words, root=root)
                except ZoosimError as error:
                    return Response(str(error), 429, media_type="text/plain")
            return await handler(request)

        return handle


def _decided(choice: Choice, answer: Mapping[str, Any]) -> str:
    """Say what a decision showed, and how likely that was."""
    shown = answer.get("shown") or []
    if not shown:
        return (
            f"{arm_subject(choice.arm)} ranked {len(choice.names_shown)} results: {', '.join(choice.names_shown[:5])}."
        )
    parts = [f"{each['product']}, which it did in {each['propensity']:.1%} of such cases" for each in shown[:5]]
    return f"{arm_subject(choice.arm)} showed {'; then '.join(parts)}."


def _facts(service: Service, row: Row, choice: Choice) -> list[tuple[str, str]]:
    made = datetime.fromtimestamp(row.time / MICROSECONDS, UTC)
    is_over = service.clock.now() - row.time > service.settings.wait * MICROSECONDS
    if choice.is_forgotten:
        outcome = "its visitor was forgotten, so nothing is learned from it"
    elif not service.current.learns_from(choice):
        outcome = "its model decides no more, so nothing is learned from it"
    else:
        outcome = "its wait is over" if is_over else "its wait is not over; rewards still count"
    asked = choice.asked()
    visitor = asked.get("visitor")
    return [
        ("Made", f"{made:%Y-%m-%d %H:%M:%S} UTC, row {row.seq:,} of the log"),
        ("Arm", choice.arm),
        ("Model", f"{choice.model}, as it was at row {choice.state:,}"),
        ("Visitor", choice.visitor_id or "nobody in particular"),
        ("What was known of the visitor", _shortened(visitor)),
        ("Left out", ", ".join(choice.ignored) or "nothing"),
        ("Learning", outcome),
    ]


def _shortened(visitor: Any) -> str:
    if isinstance(visitor, Mapping):
        return ", ".join(f"{name} = {value}" for name, value in visitor.items()) or "nothing"
    return ", ".join(f"{value:.4g}" for value in visitor or ()) or "nothing"


def _chances(choice: Choice, answer: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return each candidate with its probability, the likeliest first, and whether it was shown."""
    propensities = answer.get("propensities") or {}
    shown = {name: place for place, name in enumerate(choice.names_shown, 1)}
    likeliest = sorted(propensities.items(), key=lambda item: (-item[1], item[0]))
    return [
        (name, f"{chance:.4%}", f"at place {shown[name]}" if name in shown else "") for name, chance in likeliest[:100]
    ]


def _page(template: str, status: int = 200, **contents: Any) -> Response:
    defaults: dict[str, Any] = {"root": "../", "is_live": False, "facts": [], "chances": []}
    html = _environment().get_template(template).render({**defaults, **contents})
    return Response(html, status, media_type="text/html; charset=utf-8", headers=HEADERS)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("zoosim.serving.console", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _file(name: str, media_type: str) -> Handler:
    """Return what answers a file that lies beside this one."""
    content = (Path(__file__).parent / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=media_type, headers=HEADERS)

    return answer

"""The HTTP API of a service with several loops: each below a prefix of its own, and what adds and removes them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from zoosim.core.errors import ZoosimError
from zoosim.core.number_format import counted
from zoosim.live.pages import time_text
from zoosim.serving.access import ADMIN
from zoosim.serving.answers import json_answer, refusal
from zoosim.serving.bodies import ErrorAnswer
from zoosim.serving.console.pages import LivePanels, file_answer, page, render
from zoosim.serving.console.sessions import Sessions
from zoosim.serving.console.view import sentence
from zoosim.serving.javascript import client_routes
from zoosim.serving.loops.loops import Loops
from zoosim.serving.loops.metrics import LoopsMetrics
from zoosim.serving.refusals import NotFound
from zoosim.serving.requests import MOST_MODEL_BYTES, bearer_key, read_body
from zoosim.serving.tracing import Tracing

PREFIX = "/loops/"
"""Prefix of the paths of loops; behind it comes the name of one, and then a path as a service of one loop has it."""

MOST_BYTES = 1_000_000
"""The largest request that adds a loop."""

RUNNING, FAILING, FAILED = "running", "failing", "failed"
"""States of a loop: it answers; it refuses, since its log cannot be written now; it could not be opened."""

Handler = Callable[[Request], Awaitable[Response]]


class LoopBody(msgspec.Struct, forbid_unknown_fields=True):
    """A loop to add: its name, the digest of its model, which was sent before, and its own settings."""

    name: str
    model: str = ""
    settings: dict[str, Any] = {}


class LoopsApplication:
    """Routes to the loops of a service, and to what is about all of them."""

    def __init__(self, loops: Loops, sessions: Sessions, stopping: asyncio.Event) -> None:
        """Answer for loops.

        Args:
            loops: The loops.
            sessions: Who may ask, and see the console.
            stopping: Set once the service is told to stop.
        """
        self._loops = loops
        self._sessions = sessions
        self._metrics = LoopsMetrics(loops)
        self._decode = msgspec.json.Decoder(LoopBody).decode
        self._panels = LivePanels(
            lambda: render("loops_panels.html", **self._shown()), time.time, time.monotonic, stopping
        )
        self._own = self._starlette()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request: of a loop by that loop, as if it stood alone."""
        name, inner = _of_loop(scope)
        if not name:
            await self._own(scope, receive, send)
            return
        try:
            await self._loops.answer(name, inner, receive, send)
        except ZoosimError as error:
            await refusal(error)(scope, receive, send)

    async def answer_directly(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the answer to a request of a loop that is answered directly."""
        name, inner = _of_loop(scope)
        return await self._loops.answer_directly(name, inner, receive) if name else None

    async def wait_until_learned(self) -> None:
        """Wait until each loop decides by what was learned before."""
        await self._loops.wait_until_learned()

    def knowledge(self) -> str:
        """Return in words where the loops lie, and which there are."""
        return f"loops in {self._loops.folder.path}; {self._loops.knowledge()}"

    def end_streams(self) -> None:
        """End answers that would go on for ever."""
        self._loops.end_streams()

    async def close(self) -> None:
        """Close all loops, with all that was taken in learned."""
        await self._loops.close()

    def _starlette(self) -> Starlette:
        opened = self._sessions.opened
        routes = [
            self._route("GET", "/v1/loops", self.list_loops),
            self._route("POST", "/v1/loops", self.add),
            self._route("DELETE", "/v1/loops/{name}", self.remove),
            self._route("POST", "/v1/models", self.keep_model),
            self._route("GET", "/metrics", self.show_metrics),
            Route("/livez", _alive),
            Route("/readyz", self.ready),
            Route("/openapi.json", _describe),
            *client_routes(),
            Route(PREFIX + "{name}", self.open_console),
            Route("/", opened(self.show)),
            Route("/console/events", opened(self.events)),
            Route("/console/session", self._sessions.sign_in, methods=["POST"]),
            Route("/console/style.css", file_answer("style.css")),
            Route("/console/script.js", file_answer("script.js")),
            Route("/{path:path}", self.say_where, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]),
        ]
        return Starlette(routes=routes, middleware=[Middleware(Tracing)])

    async def list_loops(self, request: Request) -> Response:
        """Answer which loops there are, and how each does."""
        return json_answer({"loops": self._states()})

    async def add(self, request: Request) -> Response:
        """Add a loop; it answers once this does."""
        body = self._decode(await read_body(request, MOST_BYTES))
        is_new = await self._loops.add(body.name, body.model, body.settings)
        return json_answer(self._state(body.name), 201 if is_new else 200)

    async def remove(self, request: Request) -> Response:
        """Remove a loop, and answer where its log is kept."""
        name = request.path_params["name"]
        return json_answer({"name": name, "log": str(await self._loops.remove(name))})

    async def keep_model(self, request: Request) -> Response:
        """Keep a model, the content of its file, for a loop that is added, and answer its digest."""
        content = await read_body(request, MOST_MODEL_BYTES)
        return json_answer({"model": await asyncio.to_thread(self._loops.keep_model, content)})

    async def show_metrics(self, request: Request) -> Response:
        """Answer figures of all loops for Prometheus."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def ready(self, request: Request) -> Response:
        """Answer whether decisions of all loops can be stored: 200, or 503 and the reason."""
        reasons = [f"loop {name}: {failed.reason}" for name, failed in self._loops.failed.items()]
        for name, running in list(self._loops.running.items()):
            reason = await running.service.upkeep.check_writing()
            if reason:
                reasons.append(f"loop {name}: {reason}")
        return json_answer(ErrorAnswer("; ".join(reasons)), 503) if reasons else json_answer({"status": "ready"})

    async def open_console(self, request: Request) -> Response:
        """Lead to the console of a loop, whose links begin at a path that ends with a slash."""
        return RedirectResponse(f"{request.path_params['name']}/", 307)

    async def say_where(self, request: Request) -> Response:
        """Refuse a path of one loop that names none."""
        path = request.path_params["path"]
        line = f"path: got /{path}, but this service has several loops; expected one of them, as in {PREFIX}NAME/{path}"
        return refusal(NotFound(line))

    async def show(self, request: Request) -> Response:
        """Show the loops, each with a sentence and a link to its console."""
        return page(
            "loops.html",
            title=f"Loops in {self._loops.folder.path.name}",
            root="",
            now=time_text(time.time()),
            **self._shown(),
        )

    async def events(self, request: Request) -> Response:
        """Send the list of loops whenever it has changed."""
        return self._panels.response()

    def _shown(self) -> dict[str, Any]:
        """Return what the page says."""
        running, failed = len(self._loops.running), len(self._loops.failed)
        heading = f"{counted(running, 'loop')} running" + (f", {failed} cannot be opened" if failed else "")
        return {"heading": heading, "loops": self._states()}

    def _states(self) -> list[dict[str, Any]]:
        return [self._state(name) for name in sorted([*self._loops.running, *self._loops.failed])]

    def _state(self, name: str) -> dict[str, Any]:
        """Return how a loop does, as plain values."""
        self._loops.check_known(name)
        running = self._loops.running.get(name)
        if running is None:
            state, says = FAILED, self._loops.failed[name].reason
        else:
            state = FAILING if running.service.failure else RUNNING
            says = sentence(running.service, running.service.deployment()["launch"])
        folder = str(self._loops.folder.folder(name))
        return {"name": name, "state": state, "sentence": says, "path": f"{PREFIX}{name}", "folder": folder}

    def _route(self, method: str, path: str, handler: Handler) -> Route:
        """Return a route for who has the admin key."""

        async def handle(request: Request) -> Response:
            try:
                self._sessions.access.check(ADMIN, bearer_key(request))
                return await handler(request)
            except ClientDisconnect:
                return Response(status_code=400)  # to nobody
            except (ZoosimError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                return refusal(error)

        return Route(path, handle, methods=[method])


def _of_loop(scope: Scope) -> tuple[str, Scope]:
    """Return the name of the loop that a request is to, empty for none, and the request as that loop sees it."""
    root = str(scope.get("root_path", ""))
    path = str(scope.get("path", "")).removeprefix(root)
    name, slash, _ = path.removeprefix(PREFIX).partition("/")
    if not path.startswith(PREFIX) or not slash:
        return "", scope
    return name, {**scope, "root_path": f"{root}{PREFIX}{name}"}


async def _alive(request: Request) -> Response:
    return json_answer({"status": "alive"})


async def _describe(request: Request) -> Response:
    return json_answer(openapi())


def openapi() -> dict[str, Any]:
    """Return the description of what is about all loops, as OpenAPI 3.1; each loop has its own below its prefix."""

    def operation(summary: str, **more: Any) -> dict[str, Any]:
        return {"summary": summary, "responses": {"200": {"description": "Done."}}, **more}

    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/LoopBody"}}}}
    schemas = msgspec.json.schema_components([LoopBody], ref_template="#/components/schemas/{name}")[1]
    return {
        "openapi": "3.1.0",
        "info": {"title": "zoosim, several loops", "version": "1"},
        "paths": {
            "/v1/loops": {
                "get": operation("List loops."),
                "post": operation("Add a loop, 201, or 200 where it is there just so.", requestBody=body),
            },
            "/v1/loops/{name}": {"delete": operation("Remove a loop; answers where its log is.", parameters=[name])},
            "/v1/models": {"post": operation("Keep the file of a model for a loop; answers its digest.")},
            f"{PREFIX}{{name}}/openapi.json": {"get": operation("Describe the API of a loop.", parameters=[name])},
        },
        "components": {"schemas": schemas, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}],
    }

"""The HTTP API of a service."""

import asyncio
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from zoosim.core.errors import ConfigError, ZoosimError
from zoosim.core.parameters import shown
from zoosim.logs.drift import WINDOW
from zoosim.serving.access import ADMIN, DECIDE, FEEDBACK, Access
from zoosim.serving.answers import json_answer, refusal
from zoosim.serving.bodies import (
    AnnotationBody,
    DeploymentBody,
    ErrorAnswer,
    FeedbackAnswer,
    FeedbackBody,
    ProductAnswer,
    ProductBody,
    openapi_schemas,
)
from zoosim.serving.console.routes import Console
from zoosim.serving.console.sessions import Sessions
from zoosim.serving.direct_routes import DirectRoutes, Handler
from zoosim.serving.endpoints.base import Endpoint, endpoint_classes
from zoosim.serving.javascript import client_routes
from zoosim.serving.metrics import Metrics
from zoosim.serving.personalizer.routes import METHODS, PREFIX, Personalizer
from zoosim.serving.refusals import NotFound
from zoosim.serving.requests import MOST_MODEL_BYTES, bearer_key, read_body
from zoosim.serving.service import Service
from zoosim.serving.tracing import Tracing

Body = TypeVar("Body")


class Application:
    """Routes of the API, each to a method of the service.

    Attributes:
        metrics: Figures of the service.
        direct: The routes of the requests that come most often.
    """

    def __init__(
        self, service: Service, stopping: asyncio.Event | None = None, sessions: Sessions | None = None
    ) -> None:
        """Answer for a service.

        Args:
            service: The service.
            stopping: Set once it is told to stop.
            sessions: Who may ask, and see its console; where others do not share them, who has a key of its settings.
        """
        self._service = service
        sessions = sessions or Sessions(Access(service.settings.keys, service.settings.rate), service.clock.passed)
        self._access = sessions.access
        self._console = Console(service, sessions, stopping or asyncio.Event())
        self.metrics = Metrics(service)
        self._personalizer = Personalizer(service, self._access, self.metrics)
        self._feedback = msgspec.json.Decoder(FeedbackBody).decode
        self._product = msgspec.json.Decoder(ProductBody).decode
        self._deployment = msgspec.json.Decoder(DeploymentBody).decode
        self._annotation = msgspec.json.Decoder(AnnotationBody).decode
        self._most_asked = self._most_asked_routes()
        self.direct = DirectRoutes(self._most_asked)

    def starlette(self) -> Starlette:
        """Return the application that a server runs."""
        routes = [
            *self._most_asked,
            self._route("POST", "/v1/decisions/{id:path}/activation", FEEDBACK, self.activate),
            self._route("GET", "/v1/decisions/{id:path}", ADMIN, self.show_decision),
            self._route("GET", "/v1/products", ADMIN, self.list_products),
            self._route("PUT", "/v1/products/{id:path}", ADMIN, self.change_product),
            self._route("GET", "/v1/model", ADMIN, self.show_model),
            self._route("GET", "/v1/drift", ADMIN, self.show_drift),
            self._route("GET", "/v1/forecasts", ADMIN, self.show_forecasts),
            self._route("POST", "/v1/models", ADMIN, self.keep_model),
            self._route("GET", "/v1/deployment", ADMIN, self.show_deployment),
            self._route("POST", "/v1/deployment", ADMIN, self.deploy),
            self._route("POST", "/v1/annotations", ADMIN, self.annotate),
            self._route("GET", "/metrics", ADMIN, self.show_metrics),
            Route(f"/{PREFIX}/{{path:path}}", self._personalizer.answer, methods=METHODS),
            Route("/v1/loops{path:path}", _has_one_loop, methods=["GET", "POST", "DELETE"]),
            Route("/livez", _alive),
            Route("/readyz", self.ready),
            Route("/openapi.json", self.describe),
            *client_routes(),
            *self._console.routes(),
        ]
        return Starlette(routes=routes, middleware=[Middleware(Tracing)])

    def _most_asked_routes(self) -> list[Route]:
        """Return the routes of the requests that come most often."""
        return [
            *(self._route("POST", each.path, DECIDE, self._decider(each)) for each in endpoint_classes()),
            # Ids are the shop's own and may hold slashes, hence `path`, which takes these in.
            self._route("POST", "/v1/decisions/{id:path}/feedback", FEEDBACK, self.give_feedback),
        ]

    def _decider(self, endpoint: type[Endpoint]) -> Handler:
        """Return what answers the requests of an endpoint."""
        decode = msgspec.json.Decoder(endpoint.body).decode

        async def decide(request: Request) -> Response:
            with self.metrics.timed(endpoint.operation):
                body = decode(await self._read(request))
                return json_answer(await self._service.decide(body))

        return decide

    async def give_feedback(self, request: Request) -> Response:
        """Take in what a decision earned."""
        with self.metrics.timed("feedback"):
            body = self._feedback(await self._read(request))
            outcome = await self._service.give_feedback(request.path_params["id"], body)
            return json_answer(FeedbackAnswer(outcome.status))

    async def activate(self, request: Request) -> Response:
        """Activate a deferred decision."""
        outcome = await self._service.activate(request.path_params["id"])
        return json_answer(FeedbackAnswer(outcome.status))

    async def show_decision(self, request: Request) -> Response:
        """Answer what the log holds of a decision."""
        row, decision = await self._service.decision(request.path_params["id"])
        answer = msgspec.to_builtins(await self._service.answer(request.path_params["id"]))
        extra = {
            "position": row.seq,
            "time": row.time,
            "deferred": decision.deferred,
            **decision.asked(),
        }
        return json_answer({**answer, **extra})

    async def list_products(self, request: Request) -> Response:
        """Answer which products may be shown."""
        return json_answer({"products": self._service.catalogue.names()})

    async def change_product(self, request: Request) -> Response:
        """Add or change a product."""
        body = self._product(await self._read(request))
        warnings = await self._service.change_product(request.path_params["id"], body)
        return json_answer(ProductAnswer(warnings)) if warnings else Response(status_code=204)

    async def show_model(self, request: Request) -> Response:
        """Answer what decides, and what it has learned so far."""
        return json_answer(self._service.description())

    async def show_drift(self, request: Request) -> Response:
        """Answer what changed against the first period of the log."""
        text = request.query_params.get("window", str(WINDOW))
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise ConfigError(f"window: got {shown(text)}, expected a whole number of decisions")
        return json_answer(await self._service.drift(int(text)))

    async def show_forecasts(self, request: Request) -> Response:
        """Answer what was forecast of models, and what came."""
        return json_answer(await self._service.forecasts())

    async def keep_model(self, request: Request) -> Response:
        """Keep a model, the content of its file, and answer its digest; it decides once it is launched."""
        content = await read_body(request, MOST_MODEL_BYTES)
        return json_answer({"model": await asyncio.to_thread(self._service.keep_model_content, content)})

    async def show_deployment(self, request: Request) -> Response:
        """Answer what decides for whom, where its models came from, and what was changed."""
        return json_answer({**self._service.deployment(), "history": await self._service.history()})

    async def deploy(self, request: Request) -> Response:
        """Change what decides."""
        with self.metrics.timed("deploy"):
            return json_answer(await self._service.deploy(self._deployment(await self._read(request))))

    async def annotate(self, request: Request) -> Response:
        """Log what happened to the shop."""
        outcome = await self._service.annotate(self._annotation(await self._read(request)))
        return json_answer(FeedbackAnswer(outcome.status))

    async def show_metrics(self, request: Request) -> Response:
        """Answer figures for Prometheus."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def ready(self, request: Request) -> Response:
        """Answer whether decisions can be stored: 200, or 503 and the reason."""
        reason = await self._service.upkeep.check_writing()
        return json_answer(ErrorAnswer(reason), 503) if reason else json_answer({"status": "ready"})

    async def describe(self, request: Request) -> Response:
        """Answer the description of the API."""
        return json_answer(openapi())

    def _route(self, method: str, path: str, role: str, handler: Handler) -> Route:
        return Route(path, self._guarded(method, role, handler), methods=[method])

    def _guarded(self, method: str, role: str, handler: Handler) -> Handler:
        """Return a handler that checks the key first, and answers what was refused."""

        async def handle(request: Request) -> Response:
            try:
                self._access.check(role, bearer_key(request))
                # Who watches the service must see it under load, too.
                if method != "GET":
                    self._service.check_room()
                return await handler(request)
            except ClientDisconnect:
                return Response(status_code=400)  # to nobody
            except (ZoosimError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                # A body may be no UTF-8, or be nested deeper than the decoder goes.
                return refusal(error)

        return handle

    async def _read(self, request: Request) -> bytes:
        """Return a body; raises `TooLarge` as soon as it is."""
        return await read_body(request, self._service.settings.most_bytes)


def openapi() -> dict[str, Any]:
    """Return the description of the API, as OpenAPI 3.1."""

    def refer(*names: str) -> dict[str, Any]:
        schemas = [{"$ref": f"#/components/schemas/{name}"} for name in names]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        return {"content": {"application/json": {"schema": schema}}}

    def operation(summary: str, body: str | None, *answers: str, has_id: bool = True) -> dict[str, Any]:
        done = {"description": "Done.", **(refer(*answers) if answers else {})}
        refused = {"description": "Refused; the body says why.", **refer("ErrorAnswer")}
        description: dict[str, Any] = {"summary": summary, "responses": {"200": done, "default": refused}}
        if body is not None:
            description["requestBody"] = {"required": True, **refer(body)}
        if has_id:
            description["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
        return description

    endpoints = endpoint_classes()
    answers = [each.answer.__name__ for each in endpoints]
    decisions = {
        each.path: {"post": operation(each.summary, each.body.__name__, each.answer.__name__, has_id=False)}
        for each in endpoints
    }
    feedback = operation("Say what a decision earned.", "FeedbackBody", "FeedbackAnswer")
    activate = operation("Activate a deferred decision.", None, "FeedbackAnswer")
    annotate = operation("Say what happened to the shop.", "AnnotationBody", "FeedbackAnswer", has_id=False)
    product = operation("Add a product, or change it; 204 without warnings.", "ProductBody", "ProductAnswer")
    return {
        "openapi": "3.1.0",
        "info": {"title": "zoosim", "version": "1"},
        "paths": {
            **decisions,
            "/v1/decisions/{id}": {"get": operation("Show a decision.", None, *answers)},
            "/v1/decisions/{id}/feedback": {"post": feedback},
            "/v1/decisions/{id}/activation": {"post": activate},
            "/v1/products/{id}": {"put": product},
            "/v1/products": {"get": operation("List products.", None, has_id=False)},
            "/v1/drift": {"get": operation("Show what changed against the log's first period.", None, has_id=False)},
            "/v1/forecasts": {"get": operation("Show forecasts, and what came.", None, has_id=False)},
            "/v1/model": {"get": operation("Show the model and what it learned.", None, has_id=False)},
            "/v1/models": {"post": operation("Keep the file of a model; answers its digest.", None, has_id=False)},
            "/v1/deployment": {
                "get": operation("Show what decides for whom.", None, has_id=False),
                "post": operation("Change what decides.", "DeploymentBody", has_id=False),
            },
            "/v1/annotations": {"post": annotate},
        },
        "components": {
            "schemas": openapi_schemas([*(each.body for each in endpoints), *(each.answer for each in endpoints)]),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


async def _has_one_loop(request: Request) -> Response:
    return refusal(NotFound("loops: this service has one; start one with --loops DIR to add and remove some"))


async def _alive(request: Request) -> Response:
    return json_answer({"status": "alive"})

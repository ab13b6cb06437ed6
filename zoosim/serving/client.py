"""Ask a service what to show, and tell it what that earned; requests that fail on their way are sent again."""

import asyncio
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from urllib.parse import quote

import httpx2

from zoosim.core.errors import ConfigError, ZoosimError
from zoosim.core.parameters import shown
from zoosim.serving.client_answers import Decision, Ranking, decision_of, ranking_of

KEY = "ZOOSIM_SERVE_KEY"
"""The variable of the environment that holds the key of the service, which no file of a run is to hold."""

TRIES = 4
FIRST_PAUSE = 0.1
"""Seconds before a request is sent again; each further pause is twice as long, or as long as the service asks for."""

LONGEST_PAUSE = 5.0
PASSING = (429, 502, 503, 504)
"""Statuses of what may go well a little later."""

Candidate = str | int | Mapping[str, Any]
Scores = Mapping[str, float] | Sequence[Mapping[str, Any]]
"""The base ranker's score of each product: by id, or as mappings of `id` and `score`."""


class ServiceError(ZoosimError):
    """The service refused a request, or could not be reached; `status` is 0 where it gave no answer."""

    def __init__(self, line: str, status: int) -> None:
        super().__init__(line)
        self.status = status


@dataclass(frozen=True)
class Call:
    """A request to send: its path, its body, and its method, where that is not the usual one."""

    path: str
    body: Mapping[str, Any] | bytes | None = None
    """Content to post, as JSON or as it is; None for a GET request."""
    verb: str = ""

    @property
    def method(self) -> str:
        return self.verb or ("GET" if self.body is None else "POST")

    @property
    def content(self) -> dict[str, Any]:
        """The content as the HTTP client takes it; raises `ConfigError` for what JSON cannot hold."""
        if self.body is None or isinstance(self.body, bytes):
            return {"content": self.body}
        try:
            text = json.dumps(self.body, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            expected = "expected texts, finite numbers, lists and mappings"
            raise ConfigError(f"request: got what JSON cannot hold ({error}); {expected}") from None
        return {"content": text, "headers": {"Content-Type": "application/json"}}


_MODEL, _PRODUCTS, _DEPLOYMENT = Call("/v1/model"), Call("/v1/products"), Call("/v1/deployment")
_FORECASTS = Call("/v1/forecasts")


class _Requests:
    """Requests that both clients send, and the options of their connections."""

    def __init__(self, url: str, key: str = "", timeout: float = 5.0, loop: str = "") -> None:
        """Name the service.

        Args:
            url: Where it listens, such as `http://127.0.0.1:8100`.
            key: Its key, where it has one.
            timeout: Seconds that one try may take.
            loop: The name of the loop to ask, where the service has several.

        Raises:
            ConfigError: the URL is none, or the key cannot be sent.
        """
        try:
            is_url = httpx2.URL(url).scheme in ("http", "https")
        except httpx2.InvalidURL:
            is_url = False
        if not is_url:
            raise ConfigError(f"url: got {shown(url)}, expected that of a service, such as http://127.0.0.1:8100")
        if not (key.isascii() and key.isprintable()):
            raise ConfigError("key: got one with characters other than printable ASCII, expected that of the service")
        self._url = f"{url.rstrip('/')}/loops/{quote(loop, safe='')}" if loop else url
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._options: dict[str, Any] = {"base_url": self._url, "headers": headers, "timeout": timeout}

    @staticmethod
    def _decide(
        visitor: Mapping[str, Any],
        candidates: Sequence[Candidate] | None,
        count: int,
        decision_id: str | None,
        visitor_id: str,
        defer: bool,
        pinned: Mapping[int, str] | None,
        forbidden: Sequence[str],
    ) -> Call:
        body = _asked(visitor, decision_id, visitor_id, defer)
        body["count"] = count
        if pinned:
            body["pinned"] = dict(pinned)
        if forbidden:
            body["forbidden"] = list(forbidden)
        if candidates is not None:
            body["candidates"] = list(candidates)
        return Call("/v1/decisions", body)

    @staticmethod
    def _rank(
        visitor: Mapping[str, Any], candidates: Scores, decision_id: str | None, visitor_id: str, defer: bool
    ) -> Call:
        body = _asked(visitor, decision_id, visitor_id, defer)
        body["candidates"] = dict(candidates) if isinstance(candidates, Mapping) else list(candidates)
        return Call("/v1/searches", body)

    @staticmethod
    def _feedback(decision_id: str, rewards: Mapping[str, float], product: str | None, feedback_id: str | None) -> Call:
        body: dict[str, Any] = {"rewards": dict(rewards), "feedback_id": feedback_id or uuid.uuid4().hex}
        if product is not None:
            body["product"] = product
        return Call(f"/v1/decisions/{quote(decision_id, safe='')}/feedback", body)

    @staticmethod
    def _deploy(action: str, change: Mapping[str, Any]) -> Call:
        body = {"action": action, "change_id": uuid.uuid4().hex}
        return Call("/v1/deployment", {**body, **{name: value for name, value in change.items() if value is not None}})

    @staticmethod
    def _annotate(what: str, who: str, why: str, time: datetime | None) -> Call:
        body = {"what": what, "who": who, "why": why, "annotation_id": uuid.uuid4().hex}
        return Call("/v1/annotations", body if time is None else {**body, "time": time.astimezone().isoformat()})

    @staticmethod
    def _activate(decision_id: str) -> Call:
        return Call(f"/v1/decisions/{quote(decision_id, safe='')}/activation", {})


class Client(_Requests):
    """A service, asked one request at a time. Use it as a context, or `close` it."""

    def __init__(self, url: str, key: str = "", timeout: float = 5.0, loop: str = "") -> None:
        super().__init__(url, key, timeout, loop)
        self._http = httpx2.Client(**self._options)

    def decide(
        self,
        visitor: Mapping[str, Any],
        candidates: Sequence[Candidate] | None = None,
        *,
        count: int = 1,
        decision_id: str | None = None,
        visitor_id: str = "",
        defer: bool = False,
        pinned: Mapping[int, str] | None = None,
        forbidden: Sequence[str] = (),
    ) -> Decision:
        """Return what to show.

        Args:
            visitor: What is known of the visitor and the request, by column.
            candidates: What may be shown: ids of products, or mappings of an `id` and the columns of a product's
                features. Default: all products of the service.
            count: How many to show, from the top.
            decision_id: An id of your own; made where left out.
            visitor_id: Who the visitor is.
            defer: Let the decision count only once it is activated.
            pinned: Ids of products that stand at a place whatever the policy says, by place, 1 being the top.
            forbidden: Ids of products that may not be shown.

        Raises:
            ServiceError: the service refused, or could not be reached in `TRIES` tries.
        """
        return decision_of(
            self._send(self._decide(visitor, candidates, count, decision_id, visitor_id, defer, pinned, forbidden))
        )

    def rank(
        self,
        visitor: Mapping[str, Any],
        candidates: Scores,
        *,
        decision_id: str | None = None,
        visitor_id: str = "",
        defer: bool = False,
    ) -> Ranking:
        """Return in which order to show the results of a search.

        Args:
            visitor: `segment` and `query_type`, and where the shop estimates them `price_taste` and `label_taste`.
            candidates: The base ranker's score of each product that may be shown, by id, or as mappings of `id` and
                `score`.
            decision_id, visitor_id, defer: As in `decide`.

        Raises:
            ServiceError: as `decide`.
        """
        return ranking_of(self._send(self._rank(visitor, candidates, decision_id, visitor_id, defer)))

    def give_feedback(
        self,
        decision_id: str,
        rewards: Mapping[str, float],
        *,
        product: str | None = None,
        feedback_id: str | None = None,
    ) -> str:
        """Send the rewards of a decision, by name; a call counts once, however often its request is sent again.

        Args:
            decision_id: The `id` of the decision.
            rewards: What was earned, by reward; of a search `click` and `purchase`, 0 or 1.
            product: Which of the shown products earned it; the first where left out. Of a search always named.
            feedback_id: An id of your own: feedback with the same one counts once; made where left out.

        Returns:
            "accepted", "duplicate", or "late", which is logged and not learned.

        Raises:
            ServiceError: as `decide`.
        """
        return str(self._send(self._feedback(decision_id, rewards, product, feedback_id))["status"])

    def activate(self, decision_id: str) -> str:
        """Activate a deferred decision; returns and raises as `give_feedback`."""
        return str(self._send(self._activate(decision_id))["status"])

    def model(self) -> dict[str, Any]:
        """Return what the service says of its model: policy, rules, rewards by weight, and what it has learned."""
        return self._send(_MODEL)

    def products(self) -> list[str]:
        """Return the ids of the products that the service knows and may show."""
        return list(self._send(_PRODUCTS)["products"])

    def keep_model(self, content: bytes) -> str:
        """Send a model, the content of a file that was trained; return the digest by which it can be launched.

        Raises:
            ServiceError: as `decide`.
        """
        return str(self._send(Call("/v1/models", content))["model"])

    def deploy(self, action: str, **change: Any) -> dict[str, Any]:
        """Change what the service decides by; a call counts once, however often its request is sent again.

        Args:
            action: "launch", "shadow", "share", "promote", "rollback", "retire", "freeze", "unfreeze", "pause" or
                "resume".
            **change: `arm`, `model`, `share`, `role`, `who` and `why`, as far as the action takes them; see
                `zoosim.serving.bodies.DeploymentBody`.

        Returns:
            What decides then, as `deployment`, without the history.

        Raises:
            ServiceError: as `decide`.
        """
        return self._send(self._deploy(action, change))

    def annotate(self, what: str, *, who: str = "", why: str = "", time: datetime | None = None) -> str:
        """Tell the service what happened to the shop, such as a campaign; the console marks it in its chart.

        Args:
            what: What happened, in up to 200 letters; name no visitor.
            who: Who tells it.
            why: What else there is to say.
            time: When it happened; now by default.

        Returns:
            "accepted".

        Raises:
            ServiceError: as `decide`; or the time has yet to come.
        """
        return str(self._send(self._annotate(what, who, why, time))["status"])

    def deployment(self) -> dict[str, Any]:
        """Return what decides for which share of the visitors, where models came from, and the newest changes."""
        return self._send(_DEPLOYMENT)

    def forecasts(self) -> list[dict[str, Any]]:
        """Return what was forecast of models, each with what came, as far as that can be told."""
        return list(self._send(_FORECASTS)["forecasts"])

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, call: Call) -> dict[str, Any]:
        pauses = _pauses()
        while True:
            try:
                answer: httpx2.Response | httpx2.TransportError = self._http.request(
                    call.method, call.path, **call.content
                )
            except httpx2.TransportError as error:
                answer = error
            pause = _pause_after(answer, pauses)
            if pause is None:
                return _content(answer, self._url)
            time.sleep(pause)


class AsyncClient(_Requests):
    """A service, asked from an event loop. Use it as an asynchronous context, or `close` it."""

    def __init__(self, url: str, key: str = "", timeout: float = 5.0, loop: str = "") -> None:
        super().__init__(url, key, timeout, loop)
        self._http = httpx2.AsyncClient(**self._options)

    async def decide(
        self,
        visitor: Mapping[str, Any],
        candidates: Sequence[Candidate] | None = None,
        *,
        count: int = 1,
        decision_id: str | None = None,
        visitor_id: str = "",
        defer: bool = False,
        pinned: Mapping[int, str] | None = None,
        forbidden: Sequence[str] = (),
    ) -> Decision:
        """Return what to show; see `Client.decide`."""
        return decision_of(
            await self._send(
                self._decide(visitor, candidates, count, decision_id, visitor_id, defer, pinned, forbidden)
            )
        )

    async def rank(
        self,
        visitor: Mapping[str, Any],
        candidates: Scores,
        *,
        decision_id: str | None = None,
        visitor_id: str = "",
        defer: bool = False,
    ) -> Ranking:
        """Return in which order to show the results of a search; see `Client.rank`."""
        return ranking_of(await self._send(self._rank(visitor, candidates, decision_id, visitor_id, defer)))

    async def give_feedback(
        self,
        decision_id: str,
        rewards: Mapping[str, float],
        *,
        product: str | None = None,
        feedback_id: str | None = None,
    ) -> str:
        """Send the rewards of a decision; see `Client.give_feedback`."""
        return str((await self._send(self._feedback(decision_id, rewards, product, feedback_id)))["status"])

    async def activate(self, decision_id: str) -> str:
        """Activate a deferred decision; see `Client.activate`."""
        return str((await self._send(self._activate(decision_id)))["status"])

    async def model(self) -> dict[str, Any]:
        """Return what the service says of its model; see `Client.model`."""
        return await self._send(_MODEL)

    async def products(self) -> list[str]:
        """Return the ids of the products that the service knows and may show."""
        return list((await self._send(_PRODUCTS))["products"])

    async def keep_model(self, content: bytes) -> str:
        """Send a model; see `Client.keep_model`."""
        return str((await self._send(Call("/v1/models", content)))["model"])

    async def deploy(self, action: str, **change: Any) -> dict[str, Any]:
        """Change what the service decides by; see `Client.deploy`."""
        return await self._send(self._deploy(action, change))

    async def annotate(self, what: str, *, who: str = "", why: str = "", time: datetime | None = None) -> str:
        """Tell the service what happened to the shop; see `Client.annotate`."""
        return str((await self._send(self._annotate(what, who, why, time)))["status"])

    async def deployment(self) -> dict[str, Any]:
        """Return what decides for whom; see `Client.deployment`."""
        return await self._send(_DEPLOYMENT)

    async def forecasts(self) -> list[dict[str, Any]]:
        """Return what was forecast of models; see `Client.forecasts`."""
        return list((await self._send(_FORECASTS))["forecasts"])

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(self, call: Call) -> dict[str, Any]:
        pauses = _pauses()
        while True:
            try:
                answer: httpx2.Response | httpx2.TransportError = await self._http.request(
                    call.method, call.path, **call.content
                )
            except httpx2.TransportError as error:
                answer = error
            pause = _pause_after(answer, pauses)
            if pause is None:
                return _content(answer, self._url)
            await asyncio.sleep(pause)


def _asked(visitor: Mapping[str, Any], decision_id: str | None, visitor_id: str, defer: bool) -> dict[str, Any]:
    """Return what requests for decisions and for rankings have in common."""
    body: dict[str, Any] = {"visitor": dict(visitor), "decision_id": decision_id or uuid.uuid4().hex}
    if visitor_id:
        body["visitor_id"] = visitor_id
    if defer:
        body["defer"] = True
    return body


def _pauses() -> Iterator[float]:
    """Yield how long to wait before each further try."""
    for number in range(TRIES - 1):
        yield FIRST_PAUSE * 2**number


def _pause_after(answer: httpx2.Response | httpx2.TransportError, pauses: Iterator[float]) -> float | None:
    """Return how long to wait before the request is sent again, None where it is not."""
    if isinstance(answer, httpx2.Response) and answer.status_code not in PASSING:
        return None
    pause = next(pauses, None)
    if pause is None or isinstance(answer, httpx2.TransportError):
        return pause
    retry_after = answer.headers.get("retry-after", "")
    return min(max(pause, float(retry_after)), LONGEST_PAUSE) if retry_after.isdigit() else pause


def _content(answer: httpx2.Response | httpx2.TransportError, url: str) -> dict[str, Any]:
    """Return what an answer holds; raises `ServiceError` for a refusal, or none."""
    if isinstance(answer, httpx2.TransportError):
        reason = str(answer) or type(answer).__name__
        raise ServiceError(f"{url}: the service cannot be reached ({reason}); start it, or name where it listens", 0)
    try:
        content = dict(answer.json())
    except (ValueError, TypeError):
        line = f"{url}: got status {answer.status_code} and no JSON: is this a zoosim service?"
        raise ServiceError(line, answer.status_code) from None
    if answer.status_code >= 400:
        raise ServiceError(str(content.get("error", content)), answer.status_code)
    return content

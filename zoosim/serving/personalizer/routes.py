"""Routes of the compatible API, for each of its versions."""

import logging
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import NamedTuple
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from zoosim.serving.access import ADMIN, DECIDE, FEEDBACK, Access
from zoosim.serving.ids import check_id
from zoosim.serving.metrics import Metrics
from zoosim.serving.personalizer import configuration, logs, models, ranking
from zoosim.serving.personalizer.bodies import (
    MultiSlotRankRequest,
    MultiSlotRewardRequest,
    PolicyContract,
    RankRequest,
    RewardRequest,
)
from zoosim.serving.personalizer.errors import PersonalizerError, json_response, missing, refusal
from zoosim.serving.personalizer.evaluations import Evaluations
from zoosim.serving.requests import MOST_MODEL_BYTES, read_body
from zoosim.serving.service import Service

PREFIX = "personalizer"
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")

FIRST, PREVIEW_1, PREVIEW_3, LATEST = 0, 1, 3, 4
"""Versions by age."""

VERSIONS = {
    "v1.0": FIRST,
    "v1.1-preview.1": PREVIEW_1,
    "v1.1-preview.2": 2,
    "v1.1-preview.3": PREVIEW_3,
    "v1.1": PREVIEW_3,
}
API_VERSIONS = {"2022-09-01-preview": LATEST}

KEY_HEADER = "ocp-apim-subscription-key"
REQUEST_ID_HEADER = "x-ms-client-request-id"

logger = logging.getLogger("zoosim.serving")


class Call(NamedTuple):
    """A request, the id in its path if there is one, and the version that it is made by."""

    request: Request
    id: str
    version: int


Handler = Callable[[Call], Awaitable[Response]]


class Entry(NamedTuple):
    """Route of the API: its key's role, its first and last version, the code of what it refuses, and its handler."""

    method: str
    path: tuple[str, ...]
    role: str
    versions: tuple[int, int]
    code: str
    handler: Handler


class Personalizer:
    """The compatible API of a service."""

    def __init__(self, service: Service, access: Access, metrics: Metrics) -> None:
        """Prepare the routes."""
        self._service = service
        self._access = access
        self._metrics = metrics
        self._evaluations = Evaluations(service)
        self._entries = self._all_entries()
        self._rank_decoder = msgspec.json.Decoder(RankRequest)
        self._reward_decoder = msgspec.json.Decoder(RewardRequest)

    async def answer(self, request: Request) -> Response:
        """Answer a request of any path below the prefix."""
        code = "BadRequest"
        try:
            entry, call = self._found(request)
            code = entry.code
            self._access.check(entry.role, _key_of(request))
            if entry.role != ADMIN:
                self._service.check_room()
            with self._metrics.timed(f"personalizer {'/'.join(entry.path)}"):
                return await entry.handler(call)
        except Exception as error:
            # Clients of this API read a code from the body of whatever goes wrong, also of our own faults.
            response = refusal(error, code)
            if response.status_code == 500:
                logger.exception("a request of the compatible API failed")
            return response

    def _found(self, request: Request) -> tuple[Entry, Call]:
        """Return what answers a request; raises `PersonalizerError` for an unknown path, version or method."""
        version, segments = _version_of(request)
        fitting = [entry for entry in self._entries if _fits(entry.path, segments) and _has(entry, version)]
        if not fitting:
            raise missing(f"There is nothing at /{'/'.join(segments)} in this version of the API.")
        for entry in fitting:
            if entry.method == request.method:
                ids = [segment for part, segment in zip(entry.path, segments, strict=True) if part == "{id}"]
                return entry, Call(request, ids[0] if ids else "", version)
        methods = ", ".join(entry.method for entry in fitting)
        raise PersonalizerError("BadRequest", f"Got {request.method}, expected {methods}.", 405)

    def _all_entries(self) -> list[Entry]:
        always = (FIRST, LATEST)
        slots = (PREVIEW_1, LATEST)
        newest = (LATEST, LATEST)
        service = ("configurations", "service")
        policy = ("configurations", "policy")
        evaluation = ("evaluations", "{id}")
        service_code = "InvalidServiceConfiguration"
        reward_code = "InvalidRewardRequest"
        policy_code = "InvalidPolicyContract"
        evaluation_code = "InvalidEvaluationContract"
        return [
            Entry("POST", ("rank",), DECIDE, always, "InvalidRankRequest", self.rank),
            Entry("POST", ("events", "{id}", "reward"), FEEDBACK, always, reward_code, self.reward),
            Entry("POST", ("events", "{id}", "activate"), FEEDBACK, always, "InvalidEventIdToActivate", self.activate),
            Entry("POST", ("multislot", "rank"), DECIDE, slots, "InvalidRankRequest", self.rank_slots),
            Entry("POST", ("multislot", "events", "{id}", "reward"), FEEDBACK, slots, reward_code, self.reward_slots),
            Entry("POST", ("multislot", "events", "{id}", "activate"), FEEDBACK, slots, reward_code, self.activate),
            Entry("GET", service, ADMIN, always, service_code, self.show_configuration),
            Entry("PUT", service, ADMIN, always, service_code, self.change_configuration),
            Entry("GET", policy, ADMIN, always, policy_code, self.show_policy),
            Entry("PUT", policy, ADMIN, always, policy_code, self.change_policy),
            Entry("DELETE", policy, ADMIN, always, policy_code, self.reset_policy),
            Entry("POST", ("configurations", "applyFromEvaluation"), ADMIN, slots, evaluation_code, self.apply),
            Entry("GET", ("model",), ADMIN, always, "InvalidRequest", self.export_model),
            Entry("PUT", ("model",), ADMIN, (PREVIEW_3, LATEST), "InvalidModelImportFormat", self.import_model),
            Entry("DELETE", ("model",), ADMIN, always, "InvalidRequest", self.reset_model),
            Entry("GET", ("model", "properties"), ADMIN, always, "InvalidRequest", self.show_model),
            Entry("GET", ("logs", "properties"), ADMIN, always, "InvalidRequest", self.show_log),
            Entry("DELETE", ("logs",), ADMIN, always, "InvalidRequest", self.delete_log),
            Entry("GET", ("evaluations",), ADMIN, always, evaluation_code, self.list_evaluations),
            Entry("POST", ("evaluations",), ADMIN, (FIRST, PREVIEW_3), evaluation_code, self.create_evaluation),
            Entry("PUT", evaluation, ADMIN, newest, evaluation_code, self.create_evaluation),
            Entry("GET", evaluation, ADMIN, always, evaluation_code, self.show_evaluation),
            Entry("DELETE", evaluation, ADMIN, always, evaluation_code, self.delete_evaluation),
            Entry("GET", ("status",), ADMIN, always, "InvalidRequest", self.show_status),
        ]

    async def rank(self, call: Call) -> Response:
        """Decide which action to show."""
        request = self._rank_decoder.decode(await self._read(call))
        return json_response(await ranking.rank(self._service, request), 201)

    async def reward(self, call: Call) -> Response:
        """Take in what an event earned."""
        request = self._reward_decoder.decode(await self._read(call))
        await ranking.reward(self._service, call.id, request, _request_id(call))
        return _done()

    async def activate(self, call: Call) -> Response:
        """Activate a deferred event."""
        await ranking.activate(self._service, call.id)
        return _done()

    async def rank_slots(self, call: Call) -> Response:
        """Decide which action to show in each slot."""
        self._check_slots()
        request = msgspec.json.decode(await self._read(call), type=MultiSlotRankRequest)
        return json_response(await ranking.rank_slots(self._service, request), 201)

    async def reward_slots(self, call: Call) -> Response:
        """Take in what slots of an event earned."""
        self._check_slots()
        request = msgspec.json.decode(await self._read(call), type=MultiSlotRewardRequest)
        await ranking.reward_slots(self._service, call.id, request, _request_id(call))
        return _done()

    async def show_configuration(self, call: Call) -> Response:
        """Answer how the service learns."""
        return json_response(configuration.service_configuration(self._service))

    async def change_configuration(self, call: Call) -> Response:
        """Change how the service learns."""
        return json_response(await configuration.change_service_configuration(self._service, await self._read(call)))

    async def show_policy(self, call: Call) -> Response:
        """Answer which policy is configured."""
        return json_response(configuration.policy(self._service))

    async def change_policy(self, call: Call) -> Response:
        """Configure a policy."""
        contract = msgspec.json.decode(await self._read(call), type=PolicyContract)
        return json_response(await configuration.change_policy(self._service, contract))

    async def reset_policy(self, call: Call) -> Response:
        """Go back to the policy that is configured by default."""
        return json_response(await configuration.change_policy(self._service, configuration.DEFAULT_POLICY))

    async def apply(self, call: Call) -> Response:
        """Take over a policy of an evaluation."""
        self._evaluations.apply(await self._read(call))
        return _done()

    async def export_model(self, call: Call) -> Response:
        """Answer the model as a file."""
        signed = call.version >= PREVIEW_3 and call.request.query_params.get("signed", "").lower() == "true"
        content = models.export_model(self._service, signed)
        name = "model.vw.zip" if signed else "model.vw"
        headers = {
            "Content-Disposition": f"attachment; filename={name}",
            "Last-Modified": formatdate(await models.last_learned(self._service), usegmt=True),
        }
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def import_model(self, call: Call) -> Response:
        """Go on with a model from a file."""
        await models.import_model(self._service, await read_body(call.request, MOST_MODEL_BYTES))
        return _done()

    async def reset_model(self, call: Call) -> Response:
        """Forget what was learned."""
        await models.reset_model(self._service)
        return _done()

    async def show_model(self, call: Call) -> Response:
        """Answer when the model was made, and when it changed."""
        return json_response(await models.model_properties(self._service))

    async def show_log(self, call: Call) -> Response:
        """Answer from when to when the log reaches."""
        return json_response(await logs.log_properties(self._service))

    async def delete_log(self, call: Call) -> Response:
        """Delete what was logged."""
        await logs.delete_log(self._service)
        return _done()

    async def list_evaluations(self, call: Call) -> Response:
        """Answer all evaluations."""
        return json_response(self._evaluations.everything(call.version == LATEST, call.request.query_params))

    async def create_evaluation(self, call: Call) -> Response:
        """Evaluate policies on the log."""
        content = await self._read(call)
        evaluation = await self._evaluations.create(content, call.id)
        if call.version == LATEST:
            return Response()
        response = json_response(evaluation, 201)
        response.headers["Location"] = f"{str(call.request.url).rstrip('/')}/{evaluation['id']}"
        return response

    async def show_evaluation(self, call: Call) -> Response:
        """Answer an evaluation."""
        return json_response(self._evaluations.show(call.id, call.version == LATEST))

    async def delete_evaluation(self, call: Call) -> Response:
        """Delete an evaluation."""
        self._evaluations.delete(call.id)
        return _done()

    async def show_status(self, call: Call) -> Response:
        """Answer whether the service works."""
        failure = self._service.failure
        message = failure or "Api Key is valid, no action needed."
        status = "Invalid" if failure else "Valid"
        return json_response({"service": "personalizer", "apiStatus": status, "apiStatusMessage": message})

    def _check_slots(self) -> None:
        if not configuration.is_multi_slot(self._service):
            message = f"Multi-slot needs a policy with {configuration.MULTI_SLOT} among its arguments."
            raise PersonalizerError("InvalidMultiSlotApiAccess", message)

    async def _read(self, call: Call) -> bytes:
        return await read_body(call.request, self._service.settings.most_bytes)


def _version_of(request: Request) -> tuple[int, list[str]]:
    """Return the version that a request is made by, and its path below that; raises `PersonalizerError`."""
    # As it was sent: once it is decoded, a slash in an id (%2F) cannot be told from those between the parts.
    raw_path = request.scope.get("raw_path") or request.scope["path"].encode()
    above = [segment for segment in request.scope.get("root_path", "").split("/") if segment]
    parts = [unquote(segment) for segment in raw_path.decode("ascii", "replace").split("/") if segment]
    segments = parts[len(above) + 1 :]  # behind where the service is mounted, and the prefix of this API
    if segments and segments[0] in VERSIONS:
        return VERSIONS[segments[0]], segments[1:]
    version = request.query_params.get("api-version", "")
    if version not in API_VERSIONS:
        expected = ", ".join([*VERSIONS, *API_VERSIONS])
        message = f"Got no version in the path and api-version {version!r}, expected one of {expected}."
        raise PersonalizerError("BadRequest", message)
    return API_VERSIONS[version], segments


def _fits(path: tuple[str, ...], segments: list[str]) -> bool:
    """Return whether a request's path is that of an entry."""
    return len(path) == len(segments) and all(
        part == "{id}" or part == segment for part, segment in zip(path, segments, strict=True)
    )


def _has(entry: Entry, version: int) -> bool:
    first, last = entry.versions
    return first <= version <= last


def _key_of(request: Request) -> str:
    return str(request.headers.get(KEY_HEADER, ""))


def _request_id(call: Call) -> str:
    """Return the id by which a client sends the same request again; empty where it gives none."""
    request_id = call.request.headers.get(REQUEST_ID_HEADER, "")
    return f"request {check_id(request_id, REQUEST_ID_HEADER)}" if request_id else ""


def _done() -> Response:
    return Response(status_code=204)

"""Evaluations: what policies would have earned, estimated from the service's own log."""

import json
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from zoosim.serving.personalizer.bodies import Body
from zoosim.serving.personalizer.errors import PersonalizerError, missing
from zoosim.serving.service import Service

FOLDER = "evaluations"
INVALID = "InvalidEvaluationContract"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class CustomPolicy(Body):
    """A policy to evaluate beside the built-in ones."""

    name: str
    arguments: str = ""


class EvaluationContract(Body):
    """What to evaluate."""

    name: str
    start_time: str
    end_time: str
    policies: tuple[CustomPolicy, ...] = ()
    enable_offline_experimentation: bool | None = None


class ApplyRequest(Body):
    """A policy of an evaluation."""

    evaluation_id: str
    policy_name: str


def list_evaluations(service: Service, paged: bool, query: Mapping[str, str]) -> Any:
    """Return all evaluations, the newest first; `paged` wraps them as newer clients expect."""
    everything = sorted(_all(service), key=lambda evaluation: str(evaluation["creationTime"]), reverse=True)
    if not paged:
        return everything
    skip, top = _whole(query, "skip", 0), _whole(query, "top", len(everything))
    return {"value": everything[skip : skip + top]}


def show(service: Service, evaluation_id: str) -> dict[str, Any]:
    """Return an evaluation; raises `PersonalizerError` for one that is not there."""
    path = _path(service, evaluation_id)
    if not path.exists():
        raise missing(f"There is no evaluation {evaluation_id!r}.", "EvaluationNotFound")
    return dict(json.loads(path.read_text()))


def delete(service: Service, evaluation_id: str) -> None:
    """Delete an evaluation; raises `PersonalizerError` for one that is not there."""
    show(service, evaluation_id)
    _path(service, evaluation_id).unlink(missing_ok=True)


async def create(service: Service, content: bytes, evaluation_id: str) -> dict[str, Any]:
    """Check what is to be evaluated, and begin; raises `PersonalizerError`."""
    contract = msgspec.json.decode(content, type=EvaluationContract)
    start, end = _time(contract.start_time), _time(contract.end_time)
    names = [policy.name for policy in contract.policies]
    if not contract.name or start >= end:
        raise PersonalizerError(INVALID, "Evaluation should have a name, and a start time before its end time.")
    if len(set(names)) < len(names):
        raise PersonalizerError("DuplicateCustomPolicyNames", "Custom policies should have names of their own.")
    evaluation_id = evaluation_id or str(uuid.uuid4())
    if _path(service, evaluation_id).exists():
        raise PersonalizerError("EvaluationAlreadyExists", f"There is an evaluation {evaluation_id!r} already.")
    reach = service.log_reach()
    if reach is None or start > reach[1] or end < reach[0]:
        raise PersonalizerError("NoLogsExistInDateRange", "Nothing was logged between start time and end time.")
    raise PersonalizerError("BadRequest", "Evaluations cannot be run yet.")


async def apply(service: Service, content: bytes) -> None:
    """Take over a policy of an evaluation; raises `PersonalizerError`."""
    request = msgspec.json.decode(content, type=ApplyRequest)
    evaluation = show(service, request.evaluation_id)
    names = [result["name"] for result in evaluation.get("policyResults", [])]
    if request.policy_name not in names:
        message = f"Evaluation has no policy {request.policy_name!r}."
        raise missing(message, "EvaluationModelNotFound")


def _all(service: Service) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (service.folder / FOLDER).glob("*.json")]


def _path(service: Service, evaluation_id: str) -> Path:
    """Return where an evaluation lies; raises `PersonalizerError` for what is no id."""
    if not ID.fullmatch(evaluation_id):
        raise missing(f"There is no evaluation {evaluation_id!r}.", "EvaluationNotFound")
    return service.folder / FOLDER / f"{evaluation_id}.json"


def _time(text: str) -> float:
    """Return a time in seconds since 1970, of UTC where it names no zone; raises `PersonalizerError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PersonalizerError(INVALID, f"Times should be as ISO 8601 writes them, got {text[:40]!r}.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _whole(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, query.get(f"${name}", ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default

"""Evaluations: what policies would have earned, estimated from the service's own log."""

import asyncio
import os
import re
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from zoosim.core.errors import DataError
from zoosim.serving.folder import EVALUATIONS, PRIVATE
from zoosim.serving.ids import LONGEST_ID
from zoosim.serving.personalizer.bodies import PersonalizerBody
from zoosim.serving.personalizer.configuration import timestamp
from zoosim.serving.personalizer.errors import PersonalizerError, missing
from zoosim.serving.personalizer.evaluation_file import read_evaluation, write_evaluation
from zoosim.serving.refusals import Busy
from zoosim.serving.service import Service
from zoosim.serving.settings import STORE

INVALID = "InvalidEvaluationContract"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
JOB = "zoosim.serving.personalizer.evaluation_job"
MOST_SECONDS_TO_END = 5.0
"""Seconds for which the next evaluation waits for the process of one that is over, at most."""

NEWER_STATUS = {"pending": "Running", "completed": "Succeeded", "failed": "Failed"}
"""Names of the states of an evaluation for newer clients."""

NEWER_NAMES = {"Online": "online", "Baseline1": "baseline1", "RandomPolicy": "random"}


class CustomPolicy(PersonalizerBody):
    """A policy of Vowpal Wabbit, which nothing here can judge."""

    name: str
    arguments: str = ""


class EvaluationContract(PersonalizerBody):
    """Request for an evaluation."""

    name: str
    start_time: str
    end_time: str
    policies: tuple[CustomPolicy, ...] = ()
    enable_offline_experimentation: bool | None = None


class ApplyRequest(PersonalizerBody):
    """A policy of an evaluation."""

    evaluation_id: str
    policy_name: str


class Evaluations:
    """The evaluations of a service, each a file in its folder; one at a time runs, in a process of its own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._folder = service.folder / EVALUATIONS
        self._running: dict[str, asyncio.Task[None]] = {}

    def everything(self, newer: bool, query: Mapping[str, str]) -> Any:
        """Return all evaluations but damaged ones, the newest first; newer clients get a page of them."""
        evaluations = []
        for path in self._folder.glob("*.json"):
            with suppress(PersonalizerError):
                evaluations.append(self._read(path.stem))
        evaluations.sort(key=lambda each: str(each["creationTime"]), reverse=True)
        if not newer:
            return [_older(evaluation) for evaluation in evaluations]
        skip = _whole(query, "skip", 0)
        top = _whole(query, "top", len(evaluations))
        return {"value": [_newer(evaluation) for evaluation in evaluations[skip : skip + top]]}

    def show(self, evaluation_id: str, newer: bool) -> dict[str, Any]:
        """Return an evaluation; raises `PersonalizerError` for one that is not there."""
        evaluation = self._read(evaluation_id)
        return _newer(evaluation) if newer else _older(evaluation)

    def delete(self, evaluation_id: str) -> None:
        """Delete an evaluation; raises `PersonalizerError` for one that is not there."""
        path = self._path(evaluation_id)
        if not path.exists():
            raise missing(f"There is no evaluation {evaluation_id!r}.", "EvaluationNotFound")
        if evaluation_id in self._running:
            self._running[evaluation_id].cancel()
            # Its process may write the result until it is killed.
            self._running[evaluation_id].add_done_callback(lambda _: path.unlink(missing_ok=True))
        path.unlink(missing_ok=True)

    async def create(self, content: bytes, evaluation_id: str) -> dict[str, Any]:
        """Begin an evaluation, and return it.

        Raises:
            PersonalizerError: it cannot be.
            Busy: another one runs.
        """
        contract = msgspec.json.decode(content, type=EvaluationContract)
        start = _time(contract.start_time)
        end = _time(contract.end_time)
        await self._check(contract, start, end)
        await self._wait_for_ending()
        evaluation_id = evaluation_id or str(uuid.uuid4())
        # From here on nothing is awaited until the task is noted, so that two requests cannot both find that none runs.
        path = self._path(evaluation_id)
        if path.exists():
            raise PersonalizerError("EvaluationAlreadyExists", f"There is an evaluation {evaluation_id!r} already.")
        if self._running:
            raise Busy(
                f"evaluations: {next(iter(self._running))!r} runs, one at a time can; come again when it is over"
            )
        evaluation = {
            "id": evaluation_id,
            "name": contract.name,
            "startTime": contract.start_time,
            "endTime": contract.end_time,
            "from": max(start, self._service.upkeep.deleted_until()),
            "to": end,
            "jobId": uuid.uuid4().hex,
            "status": "pending",
            "evaluationType": "Manual",
            "creationTime": timestamp(self._service.clock.seconds()),
            "policyResults": [],
        }
        self._folder.mkdir(mode=PRIVATE, exist_ok=True)
        write_evaluation(path, evaluation)
        task = asyncio.create_task(self._run(evaluation_id))
        self._running[evaluation_id] = task
        task.add_done_callback(lambda _: self._running.pop(evaluation_id))
        return _older(evaluation)

    def apply(self, content: bytes) -> None:
        """Take over a policy of an evaluation: that which is online is already; raises `PersonalizerError`."""
        request = msgspec.json.decode(content, type=ApplyRequest)
        evaluation = self._read(request.evaluation_id)
        if request.policy_name not in ("Online", "online") or not evaluation["policyResults"]:
            message = f"Evaluation has no model of policy {request.policy_name!r} to apply."
            raise missing(message, "EvaluationModelNotFound")

    async def _check(self, contract: EvaluationContract, start: float, end: float) -> None:
        names = [policy.name for policy in contract.policies]
        if not contract.name or start >= end:
            raise PersonalizerError(INVALID, "Evaluation should have a name, and a start time before its end time.")
        if len(contract.name) > LONGEST_ID or len(contract.start_time + contract.end_time) > LONGEST_ID:
            raise PersonalizerError(INVALID, f"Name and times should have at most {LONGEST_ID} characters.")
        if len(set(names)) < len(names):
            raise PersonalizerError("DuplicateCustomPolicyNames", "Custom policies should have names of their own.")
        reach = await self._service.upkeep.log_reach()
        if reach is None or start > reach[1] or end < reach[0]:
            raise PersonalizerError("NoLogsExistInDateRange", "Nothing was logged between start time and end time.")

    async def _wait_for_ending(self) -> None:
        """Wait for processes that have written their results, or were told to end."""
        ending = [task for evaluation_id, task in self._running.items() if not self._is_pending(evaluation_id)]
        if ending:
            await asyncio.wait(ending, timeout=MOST_SECONDS_TO_END)

    def _is_pending(self, evaluation_id: str) -> bool:
        return self._path(evaluation_id).exists() and self._read(evaluation_id)["status"] == "pending"

    async def _run(self, evaluation_id: str) -> None:
        """Evaluate in another process, and wait for it."""
        path = str(self._path(evaluation_id).resolve())
        environment = {**os.environ, STORE: self._service.settings.store}
        job = await asyncio.create_subprocess_exec(sys.executable, "-m", JOB, path, env=environment)
        try:
            await job.wait()
        finally:
            if job.returncode is None:
                job.kill()
                await job.wait()

    def _read(self, evaluation_id: str) -> dict[str, Any]:
        """Return an evaluation; one that was interrupted has failed."""
        try:
            evaluation = read_evaluation(self._path(evaluation_id))
        except OSError:
            raise missing(f"There is no evaluation {evaluation_id!r}.", "EvaluationNotFound") from None
        except DataError:
            raise missing(f"The evaluation {evaluation_id!r} is damaged, delete it.", "EvaluationNotFound") from None
        if evaluation["status"] == "pending" and evaluation_id not in self._running:
            evaluation["status"] = "failed"
        return evaluation

    def _path(self, evaluation_id: str) -> Path:
        """Return where an evaluation lies; raises `PersonalizerError` for what is no id."""
        if not ID.fullmatch(evaluation_id):
            raise missing(f"There is no evaluation {evaluation_id!r}.", "EvaluationNotFound")
        return self._folder / f"{evaluation_id}.json"


def _older(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Return an evaluation as the clients of versions 1 read it."""
    return {name: value for name, value in evaluation.items() if name not in ("from", "to")}


def _newer(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Return an evaluation as newer clients read it."""
    answer = {
        name: evaluation[name]
        for name in ("id", "name", "startTime", "endTime", "jobId", "evaluationType", "creationTime")
    }
    answer |= {"status": NEWER_STATUS[evaluation["status"]]}
    if not evaluation["policyResults"]:
        return answer
    times = {"startTime": evaluation["startTime"], "endTime": evaluation["endTime"], "intervalInMinutes": 60}
    values = [_newer_result(result) for result in evaluation["policyResults"]]
    best = max(values, key=lambda value: float(value["summary"]["expectedReward"]))
    return {**answer, "optimalPolicy": best["name"], "content": {**times, "value": values}}


def _newer_result(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": NEWER_NAMES[result["name"]],
        "slotId": "",
        "policySource": result["policySource"],
        "summary": _newer_summary(result["totalSummary"]),
        "timeseries": {
            "data": [{"time": line["timeStamp"], **_newer_summary(line)} for line in result["summary"]],
        },
    }


def _newer_summary(line: Mapping[str, Any]) -> dict[str, Any]:
    value = line["averageReward"]
    half_width = line["confidenceInterval"]
    return {"expectedReward": value, "confidenceInterval": [value - half_width, value + half_width]}


def _time(text: str) -> float:
    """Return a time in seconds since 1970, of UTC where it names no zone; raises `PersonalizerError`."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise PersonalizerError(INVALID, f"Times should be as ISO 8601 writes them, got {text[:40]!r}.") from None


def _whole(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, query.get(f"${name}", ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default

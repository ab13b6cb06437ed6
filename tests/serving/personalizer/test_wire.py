"""The compatible API by plain HTTP: every path, its statuses, bodies and errors."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.serving.personalizer.conftest import KEY
from tests.serving.personalizer.requests import (
    IDS,
    MULTI_SLOT,
    actions,
    rank_request,
    service_configuration,
    slots,
    slots_request,
)
from tests.serving.process import ServiceProcess, serving
from tests.serving.valkey import valkey_server

VERSIONS = ("v1.0", "v1.1-preview.1", "v1.1-preview.2", "v1.1-preview.3", "v1.1", "")
NEWEST = "api-version=2022-09-01-preview"


class Wire(NamedTuple):
    """The API in one version; without one in the path it is the newest."""

    http: httpx2.Client
    version: str

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        where = f"/personalizer/{self.version}{path}" if self.version else f"/personalizer{path}"
        if not self.version:
            where += ("&" if "?" in path else "?") + NEWEST
        content = {} if body is None else {"json": body}
        return self.http.request(method, where, **content, **options)


@pytest.fixture(scope="module")
def http(service: ServiceProcess) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=service.url, headers={"Ocp-Apim-Subscription-Key": KEY}, timeout=30.0) as client:
        yield client


@pytest.fixture(params=VERSIONS)
def wire(http: httpx2.Client, request: pytest.FixtureRequest) -> Wire:
    return Wire(http, request.param)


@pytest.fixture
def newest(http: httpx2.Client) -> Wire:
    return Wire(http, "")


@pytest.fixture
def several_slots(newest: Wire) -> Iterator[Wire]:
    assert newest.send("PUT", "/configurations/policy", MULTI_SLOT).status_code == 200
    yield newest
    newest.send("DELETE", "/configurations/policy")


def refused(response: httpx2.Response, status: int, code: str) -> str:
    """Check an error body; return its message."""
    assert (response.status_code, response.json()["error"]["code"]) == (status, code), response.text
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert set(response.json()) == {"error"}
    return str(response.json()["error"]["message"])


def test_an_action_is_ranked_rewarded_and_activated(wire: Wire) -> None:
    request = rank_request(deferActivation=True)
    response = wire.send("POST", "/rank", request)
    assert response.status_code == 201
    answer = response.json()
    assert set(answer) == {"ranking", "eventId", "rewardActionId"}
    assert answer["eventId"] == request["eventId"]
    assert sorted(action["id"] for action in answer["ranking"]) == sorted(IDS)
    assert answer["ranking"][0]["id"] == answer["rewardActionId"]
    assert sum(action["probability"] for action in answer["ranking"]) == pytest.approx(1.0, abs=1e-9)
    event = f"/events/{request['eventId']}"
    for path, body in ((f"{event}/reward", {"value": 0.5, "timestamp": "now"}), (f"{event}/activate", None)):
        done = wire.send("POST", path, body)
        assert (done.status_code, done.content) == (204, b"")
    assert wire.send("POST", "/rank", request).json() == answer


def test_without_an_event_id_one_is_made(newest: Wire) -> None:
    request = rank_request()
    del request["eventId"]
    first, second = (newest.send("POST", "/rank", request).json()["eventId"] for _ in range(2))
    assert len(first) >= 32
    assert first != second


def test_excluded_actions_stay_in_their_place_with_nothing(newest: Wire) -> None:
    answer = newest.send("POST", "/rank", rank_request(excludedActions=["SportsArticle", "gone"])).json()
    assert answer["ranking"][1] == {"id": "SportsArticle", "probability": 0.0}
    assert answer["rewardActionId"] != "SportsArticle"


def test_ids_come_back_as_they_were_sent(newest: Wire) -> None:
    odd = ["null", " 7.0 ", "'a'", "a/b?c", "ä"]
    request = rank_request(actions=[{"id": name, "features": [{"id": name, "x": 1}]} for name in odd])
    request["eventId"] = "event/ä 7.0"
    answer = newest.send("POST", "/rank", request).json()
    assert sorted(action["id"] for action in answer["ranking"]) == sorted(odd)
    path = "/events/event%2F%C3%A4%207.0/reward"
    assert newest.send("POST", path, {"value": 1}).status_code == 204


def test_unknown_events_are_taken_and_earn_nothing(wire: Wire) -> None:
    assert wire.send("POST", "/events/123456789/reward", {"value": 1}).status_code == 204
    assert wire.send("POST", "/events/123456789/activate").status_code == 204


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"actions": []}, "InvalidRankRequest", "Action count should be between 1 and 50."),
        ({"actions": actions() * 17}, "InvalidRankRequest", "Action count should be between 1 and 50."),
        ({"actions": [{"id": "", "features": [{"a": 1}]}]}, "InvalidRankRequest", "Action ids must not be empty."),
        ({"actions": actions() * 2}, "InvalidRankRequest", "unique"),
        ({"actions": [{"id": "x" * 257, "features": [{"a": 1}]}]}, "InvalidRankRequest", "256"),
        ({"actions": [{"id": "a", "features": []}]}, "InvalidRankRequest", "at least one non-null action feature"),
        ({"actions": [{"id": "a"}]}, "InvalidRankRequest", "at least one non-null action feature"),
        ({"actions": [{"id": "a", "features": [None, {"b": None}]}]}, "InvalidRankRequest", "at least one non-null"),
        ({"actions": [{"id": "a", "features": ["b"]}]}, "InvalidRankRequest", "not in key value pair format"),
        ({"contextFeatures": [{"a": ["b"]}]}, "InvalidRankRequest", "array with non-number items"),
        ({"contextFeatures": ["a"]}, "InvalidRankRequest", "not in key value pair format"),
        (
            {"contextFeatures": [{"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}}]},
            "InvalidRankRequest",
            "8",
        ),
        ({"eventId": ""}, "InvalidRankRequest", "EventId should be non-empty or null."),
        ({"eventId": "x" * 257}, "InvalidRankRequest", "256"),
        ({"excludedActions": list(IDS)}, "InvalidRankRequest", "all actions"),
        ({"actions": "none"}, "InvalidRankRequest", "actions"),
    ],
)
def test_bad_rank_requests(wire: Wire, change: dict[str, Any], code: str, message: str) -> None:
    assert message in refused(wire.send("POST", "/rank", rank_request(**change)), 400, code)


@pytest.mark.parametrize("body", [{"value": 1.01}, {"value": -1.01}, {"value": "a"}, {}, {"value": None}, []])
def test_bad_rewards(wire: Wire, body: Any) -> None:
    refused(wire.send("POST", "/events/e/reward", body), 400, "InvalidRewardRequest")


def test_what_is_no_json_and_what_is_too_large(newest: Wire) -> None:
    refused(newest.send("POST", "/rank", content=b'{"actions": ['), 400, "BadRequest")
    refused(newest.send("POST", "/rank", content=b"\xff\xfe"), 400, "BadRequest")
    refused(newest.send("POST", "/rank", content=b'{"x": ' + b"[" * 100_000), 400, "BadRequest")
    refused(newest.send("POST", "/rank", content=b" " * 1_000_001), 400, "PayloadSizeExceeded")


def test_the_same_event_with_another_request_is_refused(newest: Wire) -> None:
    request = rank_request()
    assert newest.send("POST", "/rank", request).status_code == 201
    refused(newest.send("POST", "/rank", {**request, "contextFeatures": []}), 409, "ModelRankingError")


def test_ids_that_are_too_long_are_no_events(newest: Wire) -> None:
    event = "x" * 257
    refused(newest.send("POST", f"/events/{event}/reward", {"value": 1}), 400, "InvalidRewardRequest")
    refused(newest.send("POST", f"/events/{event}/activate"), 400, "InvalidEventIdToActivate")


def test_paths_methods_and_versions_that_are_none(http: httpx2.Client, newest: Wire) -> None:
    refused(newest.send("GET", "/nothing"), 404, "ResourceNotFound")
    refused(newest.send("POST", "/logs/interactions", content=b"x"), 404, "ResourceNotFound")
    refused(newest.send("GET", "/rank"), 405, "BadRequest")
    refused(Wire(http, "v1.0").send("POST", "/multislot/rank", {}), 404, "ResourceNotFound")
    refused(http.get("/personalizer/v9/status"), 400, "BadRequest")
    refused(http.get("/personalizer/status?api-version=1999"), 400, "BadRequest")


@pytest.mark.parametrize("key", ["", "another key of someone"])
def test_a_wrong_key_is_refused(newest: Wire, key: str) -> None:
    headers = {"Ocp-Apim-Subscription-Key": key}
    message = refused(newest.send("POST", "/rank", rank_request(), headers=headers), 401, "401")
    assert message.startswith("Access denied due to invalid subscription key")


def test_each_slot_draws_from_what_is_left(several_slots: Wire) -> None:
    request = slots_request(deferActivation=True)
    response = several_slots.send("POST", "/multislot/rank", request)
    assert response.status_code == 201
    assert response.json() == {
        "slots": [
            {"id": "Main Article", "rewardActionId": "NewsArticle"},
            {"id": "Side Bar", "rewardActionId": "SportsArticle"},
        ],
        "eventId": request["eventId"],
    }
    rewards = {"reward": [{"slotId": "Side Bar", "value": 1.0}, {"slotId": "Main Article", "value": -0.5}]}
    event = f"/multislot/events/{request['eventId']}"
    assert several_slots.send("POST", f"{event}/reward", rewards).status_code == 204
    assert several_slots.send("POST", f"{event}/activate").status_code == 204
    unknown = {"reward": [{"slotId": "no slot", "value": 1.0}]}
    refused(several_slots.send("POST", f"{event}/reward", unknown), 400, "InvalidRewardRequest")
    assert several_slots.send("POST", "/multislot/events/unknown/reward", unknown).status_code == 204


def test_a_slot_leaves_what_the_next_one_needs(several_slots: Wire) -> None:
    first = {"id": "1", "baselineAction": "NewsArticle"}
    second = {"id": "2", "baselineAction": "SportsArticle", "excludedActions": ["NewsArticle", "EntertainmentArticle"]}
    for _ in range(20):
        answer = several_slots.send("POST", "/multislot/rank", slots_request(slots=[first, second]))
        assert answer.json()["slots"][1]["rewardActionId"] == "SportsArticle"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": []}, "Slots count should be between 1 and the number of actions"),
        ({"slots": [{"id": f"{number}", "baselineAction": f"{number}"} for number in range(4)]}, "Slots count"),
        ({"slots": [slots()[0], slots()[0]]}, "unique"),
        ({"slots": [{"id": "1", "baselineAction": "gone"}]}, "one of the actions"),
        ({"slots": [{**slots()[0], "excludedActions": ["NewsArticle"]}]}, "cannot be part of ExcludedActions"),
        ({"slots": [{"id": "1"}]}, "baselineAction"),
    ],
)
def test_bad_slots(several_slots: Wire, change: dict[str, Any], message: str) -> None:
    response = several_slots.send("POST", "/multislot/rank", slots_request(**change))
    assert message in refused(response, 400, "InvalidRankRequest")


def test_slots_need_a_policy_for_them(newest: Wire) -> None:
    refused(newest.send("POST", "/multislot/rank", slots_request()), 400, "InvalidMultiSlotApiAccess")
    refused(newest.send("POST", "/multislot/events/e/reward", {"reward": []}), 400, "InvalidMultiSlotApiAccess")


def test_the_service_is_configured(wire: Wire) -> None:
    wanted = service_configuration(
        rewardAggregation="average", rewardWaitTime="PT4H", modelExportFrequency="PT3H", modelRetrainDays=2
    )
    changed = wire.send("PUT", "/configurations/service", {**wanted, "logRetentionDays": -1})
    assert changed.status_code == 200
    assert changed.json() == wire.send("GET", "/configurations/service").json()
    assert {name: changed.json()[name] for name in wanted} == {**wanted, "logRetentionDays": -1}
    assert changed.json()["learningMode"] == "Online"
    assert not any(value is None for value in changed.json().values())
    back = wire.send("PUT", "/configurations/service", service_configuration(logRetentionDays=2**31 - 1))
    assert back.json()["logRetentionDays"] == 2**31 - 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"rewardWaitTime": "PT4S"}, "InvalidRewardWaitTime"),
        ({"rewardWaitTime": "P3D"}, "InvalidRewardWaitTime"),
        ({"rewardWaitTime": "10 minutes"}, "InvalidRewardWaitTime"),
        ({"logRetentionDays": 1}, "InvalidLogRetentionDays"),
        ({"rewardWaitTime": "P2D", "logRetentionDays": 2}, "InvalidLogRetentionDays"),
        ({"defaultReward": 1.5}, "InvalidServiceConfiguration"),
        ({"explorationPercentage": 1.5}, "InvalidServiceConfiguration"),
        ({"rewardAggregation": "mode"}, "InvalidServiceConfiguration"),
        ({"modelExportFrequency": "often"}, "InvalidServiceConfiguration"),
        ({"learningMode": "Offline"}, "InvalidServiceConfiguration"),
        ({"rewardWaitTime": 600}, "InvalidServiceConfiguration"),
        ({"learningMode": "Apprentice", "defaultReward": 0.5}, "InvalidLearningModeServiceConfiguration"),
    ],
)
def test_bad_configurations(newest: Wire, change: dict[str, Any], code: str) -> None:
    before = newest.send("GET", "/configurations/service").json()
    refused(newest.send("PUT", "/configurations/service", service_configuration(**change)), 400, code)
    assert newest.send("GET", "/configurations/service").json() == before


def test_a_configuration_must_be_whole(newest: Wire) -> None:
    for name in service_configuration():
        wanted = service_configuration()
        del wanted[name]
        refused(newest.send("PUT", "/configurations/service", wanted), 400, "InvalidServiceConfiguration")


def test_apprentices_answer_the_first_action(newest: Wire) -> None:
    newest.send("PUT", "/configurations/service", service_configuration())
    changed = newest.send("PUT", "/configurations/service", service_configuration(learningMode="Apprentice"))
    assert changed.json()["learningMode"] == "Apprentice"
    for _ in range(10):
        answer = newest.send("POST", "/rank", rank_request()).json()
        assert answer["rewardActionId"] == IDS[0]
        assert [action["id"] for action in answer["ranking"]] == list(IDS)
    assert (
        newest.send("PUT", "/configurations/service", service_configuration(learningMode="Online")).status_code == 200
    )


def test_the_policy_is_configured_and_goes_back(wire: Wire) -> None:
    default = wire.send("DELETE", "/configurations/policy").json()
    assert default["arguments"] == "--cb_explore_adf --epsilon 0.2 --power_t 0 -l 0.001 --cb_type mtr -q ::"
    wanted = {"name": "mine", "arguments": "--cb_explore_adf --quadratic GT --cb_type ips --epsilon 0.2"}
    assert wire.send("PUT", "/configurations/policy", wanted).json() == wanted
    assert wire.send("GET", "/configurations/policy").json() == wanted
    assert wire.send("DELETE", "/configurations/policy").json() == default
    bad = {"name": "mine", "arguments": "--boosting 3"}
    refused(wire.send("PUT", "/configurations/policy", bad), 400, "InvalidPolicyConfiguration")
    refused(wire.send("PUT", "/configurations/policy", {"name": "mine"}), 400, "InvalidPolicyContract")


def test_a_model_is_exported_imported_and_forgotten(newest: Wire) -> None:
    exported = newest.send("GET", "/model")
    signed = newest.send("GET", "/model?signed=true")
    assert exported.headers["content-type"] == "application/octet-stream"
    assert exported.headers["content-disposition"] == "attachment; filename=model.vw"
    assert signed.headers["content-disposition"] == "attachment; filename=model.vw.zip"
    assert "last-modified" in exported.headers
    for content in (signed.content, exported.content):
        assert newest.send("PUT", "/model", content=content).status_code == 204
        assert newest.send("GET", "/model").content == exported.content
    assert newest.send("DELETE", "/model").status_code == 204
    assert newest.send("POST", "/rank", rank_request()).status_code == 201
    middle = len(signed.content) // 2
    broken = signed.content[:middle] + bytes([signed.content[middle] ^ 1]) + signed.content[middle + 1 :]
    refused(newest.send("PUT", "/model", content=broken), 400, "InvalidModelImportSignature")
    refused(newest.send("PUT", "/model", content=b"a model"), 400, "InvalidModelImportFormat")
    refused(newest.send("PUT", "/model", content=exported.content[:-1]), 400, "InvalidModelImportFormat")


def test_a_model_says_when_it_changed(wire: Wire) -> None:
    properties = wire.send("GET", "/model/properties").json()
    assert set(properties) == {"creationTime", "lastModifiedTime"}
    assert properties["creationTime"] <= properties["lastModifiedTime"]


def test_a_log_says_how_far_it_reaches_until_it_is_deleted(newest: Wire) -> None:
    newest.send("POST", "/rank", rank_request())
    reach = newest.send("GET", "/logs/properties").json()["dateRange"]
    assert reach["from"] <= reach["to"]
    assert newest.send("DELETE", "/logs").status_code == 204
    assert newest.send("GET", "/logs/properties").json() == {}
    newest.send("POST", "/rank", rank_request())
    assert newest.send("GET", "/logs/properties").json()["dateRange"]["from"] > reach["from"]


def test_evaluations_that_are_not_there(wire: Wire) -> None:
    everything = wire.send("GET", "/evaluations").json()
    assert (everything["value"] if wire.version == "" else everything) == []
    refused(wire.send("GET", "/evaluations/none"), 404, "EvaluationNotFound")
    refused(wire.send("DELETE", "/evaluations/none"), 404, "EvaluationNotFound")


@pytest.mark.parametrize("is_remote", [pytest.param(False, marks=pytest.mark.slow), True])
def test_policies_are_evaluated_on_the_log(tmp_path: Path, is_remote: bool) -> None:
    folder = tmp_path / "store"
    with contextlib.ExitStack() as opened:
        store = ""
        if is_remote:
            store = opened.enter_context(valkey_server(tmp_path / "valkey")).store("loop", folder)
        process = opened.enter_context(serving(folder, None, store, most_delay=10.0))
        http = opened.enter_context(httpx2.Client(base_url=process.url, timeout=30.0))
        older = Wire(http, "v1.1")
        damage_an_evaluation(older, folder)
        evaluate_policies(older, Wire(http, ""))


def damage_an_evaluation(wire: Wire, folder: Path) -> None:
    before = wire.send("GET", "/evaluations").json()
    (folder / "evaluations").mkdir()
    (folder / "evaluations" / "broken.json").write_text("[1]")
    assert wire.send("GET", "/evaluations").json() == before
    assert "is damaged, delete it" in refused(wire.send("GET", "/evaluations/broken"), 404, "EvaluationNotFound")
    assert wire.send("DELETE", "/evaluations/broken").status_code == 204
    assert not (folder / "evaluations" / "broken.json").exists()


def evaluate_policies(older: Wire, newest: Wire) -> None:
    newest.send("PUT", "/configurations/service", service_configuration(rewardWaitTime="PT5S"))
    for number in range(41):
        if number == 40:
            time.sleep(6)  # the others are over once the last has come
        answer = newest.send("POST", "/rank", rank_request()).json()
        value = float(answer["rewardActionId"] == IDS[0])
        assert newest.send("POST", f"/events/{answer['eventId']}/reward", {"value": value}).status_code == 204
    contract = {"name": "first", "startTime": "2020-01-01T00:00:00Z", "endTime": "2100-01-01T00:00:00Z", "policies": []}
    created = older.send("POST", "/evaluations", contract)
    assert created.status_code == 201
    evaluation = created.json()["id"]
    assert created.headers["location"].endswith(f"/v1.1/evaluations/{evaluation}")
    while (result := older.send("GET", f"/evaluations/{evaluation}").json())["status"] == "pending":
        time.sleep(0.2)
    assert result["status"] == "completed", result
    total = {policy["policySource"]: policy["totalSummary"] for policy in result["policyResults"]}
    assert total["Baseline"]["averageReward"] == pytest.approx(1.0)
    assert total["Online"]["ipsEstimatorDenominator"] in (40, 41)  # on a busy machine the last is over by then, too
    assert total["Random"]["averageReward"] < total["Baseline"]["averageReward"]
    shown = newest.send("GET", f"/evaluations/{evaluation}").json()
    assert (shown["status"], shown["optimalPolicy"]) == ("Succeeded", "baseline1")
    assert [value["name"] for value in shown["content"]["value"]] == ["online", "baseline1", "random"]
    again = newest.send("PUT", f"/evaluations/{evaluation}", contract)
    refused(again, 400, "EvaluationAlreadyExists")
    apply = {"evaluationId": evaluation, "policyName": "Online"}
    assert newest.send("POST", "/configurations/applyFromEvaluation", apply).status_code == 204
    apply["policyName"] = "Baseline1"
    refused(newest.send("POST", "/configurations/applyFromEvaluation", apply), 404, "EvaluationModelNotFound")
    assert newest.send("DELETE", f"/evaluations/{evaluation}").status_code == 204
    assert newest.send("PUT", "/evaluations/second", contract).content == b""
    beside = older.send("POST", "/evaluations", contract)
    assert "'second' runs" in refused(beside, 429, "429")
    assert beside.headers["retry-after"] == "1"
    assert newest.send("DELETE", "/evaluations/second").status_code == 204
    assert newest.send("PUT", "/evaluations/third", contract).content == b""
    assert newest.send("DELETE", "/evaluations/third").status_code == 204


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"name": ""}, "InvalidEvaluationContract"),
        ({"startTime": "yesterday"}, "InvalidEvaluationContract"),
        ({"startTime": "2101-01-01T00:00:00Z"}, "InvalidEvaluationContract"),
        ({"endTime": "2020-01-02T00:00:00Z"}, "NoLogsExistInDateRange"),
        ({"policies": [{"name": "a", "arguments": ""}] * 2}, "DuplicateCustomPolicyNames"),
    ],
)
def test_bad_evaluations(http: httpx2.Client, change: dict[str, Any], code: str) -> None:
    contract = {"name": "bad", "startTime": "2020-01-01T00:00:00Z", "endTime": "2100-01-01T00:00:00Z", **change}
    refused(Wire(http, "v1.0").send("POST", "/evaluations", contract), 400, code)


def test_the_status_of_the_service(wire: Wire) -> None:
    status = wire.send("GET", "/status").json()
    assert set(status) == {"service", "apiStatus", "apiStatusMessage"}
    assert status["apiStatus"] == "Valid"


def test_a_schema_is_inferred_and_what_was_logged_is_learned(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("fresh") / "store"
    with serving(folder, None, most_delay=10.0) as process, httpx2.Client(base_url=process.url, timeout=30.0) as http:
        wire = Wire(http, "v1.1")
        sports = [visit(wire, number) for number in range(400)]
        model = http.get("/v1/model").json()
        assert model["policy"] == "adaptive"
        assert sum(sports[320:]) > 64
        wire.send("PUT", "/configurations/service", service_configuration(rewardWaitTime="PT1H"))
        assert http.get("/v1/model").json()["rules"]["wait"] == 3600.0
        process.stop()
        process.start()
        assert wire.send("GET", "/configurations/service").json()["rewardWaitTime"] == "PT1H"
        assert http.get("/v1/model").json()["policy"] == "adaptive"


def visit(wire: Wire, number: int) -> bool:
    """Rank for somebody who likes sports alone; return whether that was shown."""
    answer = wire.send("POST", "/rank", rank_request(eventId=f"e{number}")).json()
    likes = bool(answer["rewardActionId"] == "SportsArticle")
    wire.send("POST", f"/events/e{number}/reward", {"value": float(likes)})
    if number == 240:
        time.sleep(0.5)
    return likes

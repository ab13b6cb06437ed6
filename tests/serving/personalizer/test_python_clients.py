"""The public Python clients, unchanged, against a running service."""

import io
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from azure.ai.personalizer import PersonalizerAdministrationClient, PersonalizerClient
from azure.cognitiveservices.personalizer import PersonalizerClient as FirstClient
from azure.cognitiveservices.personalizer.models import RankableAction, RankRequest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from msrest.authentication import ApiKeyCredentials

from tests.serving.personalizer.conftest import KEY
from tests.serving.personalizer.requests import (
    CONTEXT,
    IDS,
    MULTI_SLOT,
    actions,
    rank_request,
    service_configuration,
    slots_request,
)
from tests.serving.process import ServiceProcess, serving


@pytest.fixture(scope="module")
def first(service: ServiceProcess) -> FirstClient:
    return first_client(service.url)


@pytest.fixture(scope="module")
def client(service: ServiceProcess) -> Iterator[PersonalizerClient]:
    with PersonalizerClient(service.url, AzureKeyCredential(KEY)) as client:
        yield client


@pytest.fixture(scope="module")
def admin(service: ServiceProcess) -> Iterator[PersonalizerAdministrationClient]:
    with PersonalizerAdministrationClient(service.url, AzureKeyCredential(KEY)) as client:
        yield client


def first_client(url: str) -> FirstClient:
    return FirstClient(url, ApiKeyCredentials(in_headers={"Ocp-Apim-Subscription-Key": KEY}))


def first_request(**changes: Any) -> RankRequest:
    ranked = [RankableAction(id=action["id"], features=action["features"]) for action in actions()]
    return RankRequest(actions=ranked, context_features=CONTEXT, event_id=uuid.uuid4().hex, **changes)


def test_the_first_client_ranks_rewards_and_activates(first: FirstClient) -> None:
    request = first_request(excluded_actions=["NewsArticle"], defer_activation=True)
    response = first.rank(request)
    assert response.event_id == request.event_id
    assert response.reward_action_id in IDS[1:]
    assert [action.id for action in response.ranking if action.probability == 0.0] == ["NewsArticle"]
    assert first.events.reward(event_id=response.event_id, value=1.0) is None
    assert first.events.activate(event_id=response.event_id) is None
    assert first.events.reward(event_id="123456789", value=1.0) is None


def test_the_first_client_reads_errors(first: FirstClient) -> None:
    with pytest.raises(Exception, match="Action count should be between 1 and 50"):
        first.rank(RankRequest(actions=[]))


def test_the_first_client_hears_of_overload_at_once(service: ServiceProcess) -> None:
    with serving(service.folder.parent / "slow", None, key=KEY, rate=1.0, most_delay=10.0) as slow:
        client = first_client(slow.url)
        began = time.monotonic()
        client.rank(first_request())
        with pytest.raises(Exception, match="requests per second"):
            client.rank(first_request())
        assert time.monotonic() - began < 1.0


def test_the_client_ranks_rewards_and_activates(client: PersonalizerClient) -> None:
    request = rank_request(deferActivation=True)
    response = client.rank(request)
    assert response["eventId"] == request["eventId"]
    assert {action["id"] for action in response["ranking"]} == set(IDS)
    assert client.reward(request["eventId"], {"value": 0.8}) is None
    assert client.activate(request["eventId"]) is None


def test_the_client_fills_slots(client: PersonalizerClient, admin: PersonalizerAdministrationClient) -> None:
    admin.update_policy(MULTI_SLOT)
    request = slots_request()
    response = client.rank_multi_slot(request)
    assert [slot["rewardActionId"] for slot in response["slots"]] == ["NewsArticle", "SportsArticle"]
    client.reward_multi_slot(request["eventId"], {"reward": [{"slotId": "Main Article", "value": 1.0}]})
    client.activate_multi_slot(request["eventId"])
    admin.reset_policy()
    with pytest.raises(HttpResponseError, match="InvalidMultiSlotApiAccess"):
        client.rank_multi_slot(slots_request())


def test_the_client_configures_the_service(admin: PersonalizerAdministrationClient) -> None:
    wanted = service_configuration(
        rewardAggregation="average",
        modelExportFrequency="PT3M",
        defaultReward=1.0,
        modelRetrainDays=2,
        rewardWaitTime="PT4H",
        explorationPercentage=0.3,
        logRetentionDays=-1,
    )
    updated = admin.update_service_configuration({**wanted, "learningMode": "Online"})
    assert {name: updated[name] for name in wanted} == wanted
    assert admin.get_service_configuration() == updated
    admin.update_service_configuration(service_configuration())


def test_the_client_configures_a_policy(admin: PersonalizerAdministrationClient) -> None:
    wanted = {"name": "app1", "arguments": "--cb_explore_adf --quadratic GT --ignore A --cb_type ips --epsilon 0.2"}
    assert admin.update_policy(wanted) == wanted
    assert admin.get_policy() == wanted
    default = "--cb_explore_adf --epsilon 0.2 --power_t 0 -l 0.001 --cb_type mtr -q ::"
    assert admin.reset_policy()["arguments"] == default


def test_the_client_exports_and_imports_a_model(admin: PersonalizerAdministrationClient) -> None:
    before = b"".join(admin.export_model(signed=False))
    signed = b"".join(admin.export_model(signed=True))
    assert admin.import_model(io.BytesIO(signed)) is None
    assert b"".join(admin.export_model(signed=False)) == before
    assert admin.reset_model() is None
    assert set(admin.get_model_properties()) == {"creationTime", "lastModifiedTime"}


def test_the_client_reads_and_deletes_the_log(
    admin: PersonalizerAdministrationClient, client: PersonalizerClient
) -> None:
    client.rank(rank_request())
    assert set(admin.get_log_properties()["dateRange"]) == {"from", "to"}
    assert admin.delete_logs() is None
    assert admin.get_log_properties() == {}


def test_the_client_asks_for_evaluations(admin: PersonalizerAdministrationClient) -> None:
    assert list(admin.list_evaluations()) == []
    with pytest.raises(ResourceNotFoundError, match="EvaluationNotFound"):
        admin.get_evaluation("none", start_time="20220920T000000", end_time="20220930T000000")
    contract = {
        "name": "past",
        "startTime": "2022-09-20T00:00:00Z",
        "endTime": "2022-09-30T00:00:00Z",
        "enableOfflineExperimentation": True,
        "policies": [],
    }
    with pytest.raises(HttpResponseError, match="NoLogsExistInDateRange"):
        admin.create_evaluation("past", contract)


def test_a_wrong_key_is_refused(service: ServiceProcess) -> None:
    with (
        PersonalizerClient(service.url, AzureKeyCredential("wrong")) as client,
        pytest.raises(ClientAuthenticationError, match="invalid subscription key"),
    ):
        client.rank(rank_request())

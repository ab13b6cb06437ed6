"""The provider for OpenFeature, by its SDK, against a running service."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.track import TrackingEventDetails

import zoosim
from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import PRODUCTS, make_model
from zoosim.core.errors import ConfigError
from zoosim.serving import client as client_module
from zoosim.serving import openfeature

KEY = "a key of this test alone"
FLAGS: dict[str, openfeature.Variants] = {
    "teaser": PRODUCTS[:4],
    "columns": {"p1": 3, "p2": 4},
    "is-large": {"p1": True, "p2": False},
    "layout": {"p1": {"rows": 2}, "p2": {"rows": 3}},
    "unknown-variants": ["nobody", "somebody"],
}
ANN = EvaluationContext("ann", {"country": "de"})


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("shop")
    with serving(folder / "service", make_model(folder), wait=60, decide_key=KEY, feedback_key=KEY) as running:
        yield running


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[OpenFeatureClient]:
    api.set_provider_and_wait(zoosim.OpenFeatureProvider(service.url, FLAGS, KEY))
    yield api.get_client()
    api.shutdown()
    api.clear_providers()


def test_an_evaluation_is_a_decision_with_its_probability(client: OpenFeatureClient, service: ServiceProcess) -> None:
    details = client.get_string_details("teaser", "p0", ANN)
    assert details.value == details.variant
    assert (details.reason, details.error_code) == ("SPLIT", None)
    with zoosim.Client(service.url, KEY) as shop:
        body = {"decision_id": str(details.flag_metadata["decision_id"]), "visitor_id": "ann"}
        decision = shop.decide({"country": "de"}, PRODUCTS[:4], **body)  # type: ignore[arg-type]
    expected = {"decision_id": decision.id, "propensity": decision.propensity, "arm": "champion"}
    assert details.flag_metadata == {**expected, "model": decision.model}
    assert (decision.product, len(decision.model)) == (details.value, 32)


def test_all_kinds_of_flags(client: OpenFeatureClient) -> None:
    assert client.get_integer_value("columns", 0, ANN) in (3, 4)
    assert client.get_float_value("columns", 0.0, ANN) in (3.0, 4.0)
    assert type(client.get_float_value("columns", 0.0, ANN)) is float
    assert client.get_boolean_details("is-large", False).reason == "SPLIT"
    assert client.get_object_value("layout", {}, ANN) in ({"rows": 2}, {"rows": 3})


def test_from_an_event_loop(client: OpenFeatureClient) -> None:
    async def use() -> list[object]:
        return [
            await client.get_integer_value_async("columns", 0, ANN),
            await client.get_float_value_async("columns", 0.0, ANN),
            await client.get_string_value_async("teaser", "", ANN) in PRODUCTS,
            (await client.get_boolean_details_async("is-large", False, ANN)).reason,
            await client.get_object_value_async("layout", {}, ANN) != {},
        ]

    integer, number, *others = asyncio.run(use())
    assert {integer, number} <= {3, 4}
    assert others == [True, "SPLIT", True]


def test_within_a_visit_a_flag_is_decided_once(client: OpenFeatureClient) -> None:
    visit = EvaluationContext("ann", {"visit_id": "visit-1"})
    first = client.get_string_details("teaser", "p0", visit)
    assert first.flag_metadata["decision_id"] == "visit-1/teaser"
    assert client.get_string_details("teaser", "p0", visit) == first
    assert client.get_integer_details("columns", 0, visit).flag_metadata["decision_id"] == "visit-1/columns"
    later = client.get_string_details("teaser", "p0", EvaluationContext("bob", {"visit_id": "visit-1"}))
    assert (later.value, later.error_code) == ("p0", ErrorCode.INVALID_CONTEXT)


def test_what_cannot_be_decided_is_the_default_with_a_code(client: OpenFeatureClient) -> None:
    cases = [
        (client.get_string_details("nowhere", "p0"), ErrorCode.FLAG_NOT_FOUND, "known: teaser"),
        (client.get_string_details("columns", "p0"), ErrorCode.TYPE_MISMATCH, "expected string"),
        (client.get_string_details("unknown-variants", "p0"), ErrorCode.INVALID_CONTEXT, "nobody"),
        (
            client.get_string_details("teaser", "p0", EvaluationContext("ann", {"where": {"a": 1}})),
            ErrorCode.INVALID_CONTEXT,
            "visitor",
        ),
    ]
    for details, code, line in cases:
        assert (details.value, details.error_code, details.reason) == ("p0", code, "ERROR")
        assert line in str(details.error_message)


def test_a_service_that_refuses_or_is_not_there(service: ServiceProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.001)
    for url, code in ((service.url, ErrorCode.PROVIDER_FATAL), ("http://127.0.0.1:9", ErrorCode.GENERAL)):
        api.set_provider_and_wait(zoosim.OpenFeatureProvider(url, FLAGS, "another key, as long as that"), "other")
        details = api.get_client("other").get_string_details("teaser", "p0", ANN)
        assert (details.value, details.error_code) == ("p0", code)
    loop = zoosim.OpenFeatureProvider("http://127.0.0.1:9", FLAGS, loop="home page")
    api.set_provider_and_wait(loop, "other")
    details = api.get_client("other").get_string_details("teaser", "p0", ANN)
    assert "/loops/home%20page: " in str(details.error_message)
    api.shutdown()
    api.clear_providers()


@pytest.mark.parametrize("variants", [[], "p1"])
def test_flags_without_variants_are_refused(variants: object) -> None:
    with pytest.raises(ConfigError, match="flags: teaser: got"):
        zoosim.OpenFeatureProvider("http://shop", {"teaser": variants})  # type: ignore[dict-item]


def test_times_are_columns_of_texts(client: OpenFeatureClient) -> None:
    context = EvaluationContext("ann", {"since": datetime(2026, 11, 2, 14, 5, tzinfo=UTC), "tags": ("a", "b")})
    assert client.get_string_details("teaser", "p0", context).error_code is None


def test_tracking_is_feedback(client: OpenFeatureClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    send = zoosim.Client.give_feedback

    def give_feedback(self: zoosim.Client, decision_id: str, rewards: dict[str, float], **options: str) -> str:
        status = send(self, decision_id, rewards, **options)
        sent.append((decision_id, rewards, status))
        return status

    monkeypatch.setattr(zoosim.Client, "give_feedback", give_feedback)
    carl = EvaluationContext("carl")
    client.get_string_details("teaser", "p0", carl)
    ids = [
        client.get_string_details("teaser", "p0", carl).flag_metadata["decision_id"],
        client.get_integer_details("columns", 0, carl).flag_metadata["decision_id"],
    ]
    client.track("click", carl)
    named = TrackingEventDetails(0.5, {"decision_id": str(ids[0]), "feedback_id": "once"})
    client.track("click", None, named)
    client.track("click", None, named)
    assert sent == [
        (ids[0], {"click": 1.0}, "accepted"),
        (ids[1], {"click": 1.0}, "accepted"),
        (ids[0], {"click": 0.5}, "accepted"),
        (ids[0], {"click": 0.5}, "duplicate"),
    ]


def test_events_that_are_no_rewards_are_lines(client: OpenFeatureClient, caplog: pytest.LogCaptureFixture) -> None:
    client.get_string_value("teaser", "p0", EvaluationContext("dora"))
    with caplog.at_level(logging.WARNING, "zoosim.openfeature"):
        client.track("newsletter", EvaluationContext("dora"))
        client.track("click", EvaluationContext("nobody that came"))
    assert "newsletter" in caplog.messages[0]
    assert "no decision" in caplog.messages[1]


def test_decisions_of_few_visitors_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openfeature, "MOST_VISITORS", 2)
    newest = openfeature._NewestDecisions()
    for visitor in ("ann", "bob", "ann", "carl"):
        newest.add(visitor, "teaser", f"of {visitor}")
    assert [newest.of(each) for each in ("ann", "bob", "carl")] == [["of ann"], [], ["of carl"]]

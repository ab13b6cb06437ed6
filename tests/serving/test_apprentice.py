"""How often an apprentice would show what the shop shows: counted from the log, so that no restart forgets it."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.serving.process import ServiceProcess, serving
from tests.serving.shop import make_model, with_service
from tests.serving.test_service import replayed
from zoosim.core.types import Context, FloatArray
from zoosim.serving.bodies import DecideBody
from zoosim.serving.client import Client
from zoosim.serving.service import Service

DECISIONS = 60


def decide(service: ServiceProcess, product: str) -> tuple[int, int]:
    """Let a shop show one of two products, of which p1 earns; return how often the policy was asked, and agreed."""
    before = agreement(service)
    with Client(service.url) as shop:
        for _ in range(DECISIONS):
            decision = shop.decide({}, [product, {"p1": "p2", "p2": "p1"}[product]])
            assert (decision.product, decision.propensity) == (product, 1.0)
            shop.give_feedback(decision.id, {"click": float(product == "p1")})
    service.wait_for_learner()
    after = agreement(service)
    return after["decisions"] - before.get("decisions", 0), after["agreements"] - before.get("agreements", 0)


def agreement(service: ServiceProcess) -> dict[str, Any]:
    return dict(httpx2.get(f"{service.url}/v1/model").json()["apprentice"])


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_it_is_counted_how_often_an_apprentice_agrees(tmp_path: Path) -> None:
    """It comes to agree with a shop that shows what earns more, and not with another."""
    model = make_model(tmp_path)
    with serving(tmp_path / "service", model, mode="apprentice", exploration=0.5, snapshot=0.2) as service:
        assert agreement(service) == {}
        assert "apprentice" not in httpx2.get(f"{service.url}/metrics").text
        for product in ("p1", "p2"):
            decide(service, product)
        decisions, agreements = decide(service, "p1")
        assert decisions == DECISIONS
        assert agreements > 0.9 * DECISIONS
        decisions, agreements = decide(service, "p2")
        assert agreements < 0.1 * DECISIONS
        total = agreement(service)
        assert total["decisions"] == 4 * DECISIONS
        assert total["agreement"] == total["agreements"] / total["decisions"]
        metrics = httpx2.get(f"{service.url}/metrics").text.splitlines()
        assert f"zoosim_apprentice_agreement {total['agreement']}" in metrics
        configuration = httpx2.get(f"{service.url}/personalizer/v1.0/configurations/service").json()
        assert configuration["latestApprenticeModeMetrics"] == {
            "numberOfEvents": total["decisions"],
            "numberOfImitatedEvents": total["agreements"],
        }
        assert service.stop() == 0
        service.start()
        service.wait_for_learner()
        assert agreement(service) == total
        assert replayed(tmp_path / "service").champion.counts["apprentice agreements"] == total["agreements"]


def test_what_is_shown_does_not_hang_on_an_apprentice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(service: Service) -> None:
        def fail(context: Context) -> FloatArray:
            raise FloatingPointError("nothing but a test")

        monkeypatch.setattr(service.model.policy, "propensities", fail)
        answer = await service.decide(DecideBody(candidates=["p3", "p1"]))
        assert answer.propensities == {"p3": 1.0, "p1": 0.0}

    with_service(tmp_path, make_model(tmp_path), use, mode="apprentice")
    assert replayed(tmp_path).champion.counts["apprentice decisions"] == 0

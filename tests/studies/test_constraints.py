"""The study of floors: the front by hand, and a short run that ends on its page."""

import json
from pathlib import Path

import pytest

from studies.constraints import front, measuring
from studies.constraints.front import CM2, FrontPoint, floor_of, reward_at
from studies.run import run_study
from zoosim.core.errors import ConfigError


def point(reward: float, cm2: float, price: float = 0.0) -> FrontPoint:
    return FrontPoint(reward=reward, cm2=cm2, strategic=0.0, rank_change=5.0, seed=0, quantity=CM2, price=price)


POINTS = [point(10.0, 1.0), point(9.0, 2.0, 3.0), point(2.0, 3.0, 50.0)]


def test_the_front_mixes_neighbours() -> None:
    assert reward_at(POINTS, CM2, 0.5) == 10.0
    assert reward_at(POINTS, CM2, 1.5) == pytest.approx(9.5)  # half of 10 and of 9
    assert reward_at(POINTS, CM2, 2.5) == pytest.approx(5.5)
    assert reward_at(POINTS, CM2, 4.0) == float("-inf")  # nobody gets there
    # A point below the line between two others is not taken.
    assert reward_at([*POINTS, point(5.0, 1.5)], CM2, 1.5) == pytest.approx(9.5)


def test_floors_lie_half_of_the_way() -> None:
    assert floor_of(POINTS, CM2) == 2.0


def test_a_short_run_ends_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "FIT_VISITS", 3)
    monkeypatch.setattr(front, "REPLICATES", 2)
    monkeypatch.setattr(front, "PRICES", {"cm2": (8.0,), "strategic": (12.0,)})
    monkeypatch.setattr(measuring, "VISITS", 25)
    monkeypatch.setattr(measuring, "HELD_OUT_VISITS", 2)
    shop = tmp_path / "shop.yaml"
    shop.write_text("env: {n_products: 60}\n")
    policies = ["item-critic-cm2", "item-critic-guardrail"]
    run_study("constraints", tmp_path / "out", seeds="0:2", jobs=1, config=shop, policies=policies)
    summary = json.dumps(json.loads((tmp_path / "out" / "summary.json").read_text()))
    assert "item-critic-cm2: at " in summary
    assert "of 2 catalogues" in summary
    assert "front" in (tmp_path / "out" / "report.html").read_text()


def test_an_unknown_policy_is_refused_in_one_line() -> None:
    for wrong in ("item-critic-cm2", [], ["item-critic"]):
        with pytest.raises(ConfigError, match=r"policies: got .*, expected a list of some of item-critic-cm2"):
            measuring.measure(policies=wrong)

"""Health checks: what passes, what does not, and the sentence of each."""

import pytest

from zoosim.monitoring import SplitTest, health
from zoosim.monitoring.health import Action, Finding

SOUND = SplitTest(2, concentration=100.0)
SOUND.update([50, 50], [0.5, 0.5])
SKEWED = SplitTest(2, concentration=100.0)
SKEWED.update([90, 10], [0.5, 0.5])
OTHER_WAY = SplitTest(2, concentration=100.0)
OTHER_WAY.update([10, 90], [0.5, 0.5])

PASSED = [
    health.split_ratio(SOUND, ("new", "holdback")),
    health.no_traffic("new", 5.0, 5.0),
    health.double_exposure(1, 99),
    health.double_exposure(10, 1_000),
    health.propensities(0, 1_000),
    health.product_share("SKU-1", 50, 99, 0.3),
    health.product_share("SKU-1", 300, 1_000, 0.3),
    health.errors(SOUND),
    health.errors(OTHER_WAY),
    health.latency(SOUND, 80.0),
    health.no_rewards("click", 10.0, 10.0, 100.0),
    health.no_rewards("click", 60.0, 10.0, 19.0),
]
FAILED = [
    (
        health.split_ratio(SKEWED, ("new", "holdback")),
        Action.HOLD,
        "Visitors are not split by the shares: new 90 where 50 are expected, holdback 10 where 50 are expected",
    ),
    (health.no_traffic("new", 6.0, 5.0), Action.HOLD, "new has decided nothing for 6 minutes"),
    (health.double_exposure(11, 1_000), Action.HOLD, "11 of 1,000 visitors (1.1%) met both arms"),
    (
        health.propensities(1, 1_000),
        Action.ROLL_BACK,
        "The probabilities of 1 of 1,000 decisions do not sum to 1",
    ),
    (
        health.product_share("SKU-1", 301, 1_000, 0.3),
        Action.HOLD,
        "SKU-1 has 30% of 1,000 decisions, allowed are 30%",
    ),
    (health.errors(SKEWED), Action.ROLL_BACK, "The new policy has 90 errors, where its share of all is 50"),
    (
        health.latency(OTHER_WAY, 80.0, newcomer=1),
        Action.ROLL_BACK,
        "The new policy has 90 answers slower than 80 ms, where its share of all is 50",
    ),
    (
        health.no_rewards("click", 11.0, 10.0, 20.0),
        Action.FREEZE,
        "No click has come for 11 minutes, where about 20 are usual",
    ),
]


@pytest.mark.parametrize("finding", PASSED)
def test_what_is_sound_passes(finding: Finding | None) -> None:
    assert finding is None


@pytest.mark.parametrize(("finding", "action", "what"), FAILED)
def test_what_is_not_is_said_with_its_action(finding: Finding | None, action: Action, what: str) -> None:
    assert finding is not None
    assert finding.action is action
    assert finding.what == what
    assert f"{finding}" == f"{what}. {finding.cause}. {finding.advice}. Done: {action}."
    assert "\n" not in f"{finding}"


def test_each_check_has_a_name_of_its_own() -> None:
    other = health.no_traffic("holdback", 6.0, 5.0)
    names = [finding.check for finding in (other, *(finding for finding, *_ in FAILED)) if finding is not None]
    assert len(set(names)) == len(FAILED) + 1


def test_an_action_may_be_chosen() -> None:
    finding = health.propensities(1, 10, action=Action.WARN)
    assert finding is not None
    assert finding.action is Action.WARN


def test_a_finding_stands_since_it_was_first_found() -> None:
    traffic, exposure = (FAILED[1][0], FAILED[2][0])
    first = health.standing({}, [traffic, None], "12:00")
    second = health.standing(first, [traffic, exposure], "12:05")
    assert {name: finding.since for name, finding in second.items()} == {
        "no traffic: new": "12:00",
        "double exposure": "12:05",
    }
    assert "for 6 minutes since 12:00." in f"{second['no traffic: new']}"
    gone = health.standing(second, [exposure], "12:10")
    assert list(gone) == ["double exposure"]
    assert health.standing(gone, [traffic], "12:15")["no traffic: new"].since == "12:15"

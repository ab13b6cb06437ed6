"""Rewards within users: booked on each visit or on one alone, farms, and users who are missing; and sound sessions."""

import numpy as np
import pytest

from benchmarks.quality.fooled import farms, sessions, twins
from benchmarks.quality.fooled.shop import Way
from tests.off_policy.checks.test_checks import reasons_of
from zoosim.core.rng import stream
from zoosim.off_policy.verdict import TRUST

SEED = 3

FAULTS: list[tuple[Way, str]] = [
    (sessions.session_click_on_each_decision, "one reward was booked on each visit of its user (rows "),
    (sessions.session_revenue_on_each_decision, "users have a reward at all of their visits or at none"),
    (sessions.last_click_of_a_session, "either one reward of several was booked, or users without any are missing"),
    (sessions.last_click_of_a_session_without_ids, "visitors alike in all measured numbers, as those of a user are"),
    (farms.farm_of_four_visits, "users with a reward at each visit are"),
    (farms.farm_for_one_seller, "earn less with all else than other users do"),
    (farms.users_without_clicks_rarely_kept_of_many_visits, "users with one reward are"),
]


@pytest.mark.parametrize(("way", "reason"), FAULTS, ids=[way.__name__ for way, _ in FAULTS])
def test_a_fault_within_users_is_named_and_never_trusted(way: Way, reason: str) -> None:
    verdict, reasons = reasons_of(way(stream(SEED, "fooled", way.__name__)))
    assert any(reason in each for each in reasons), reasons
    assert verdict != TRUST


@pytest.mark.parametrize("way", twins.SOUND_USERS, ids=[way.__name__ for way in twins.SOUND_USERS])
def test_users_of_any_tastes_are_sound(way: Way) -> None:
    _, reasons = reasons_of(way(stream(SEED, "fooled", way.__name__)))
    assert [each for each in reasons if "up the standard error" not in each] == []


def test_a_reward_on_the_last_visit_is_told_from_chance() -> None:
    """With three clicks in ten visits no count of users is odd; but all stand in the last four."""
    rng = np.random.default_rng(0)
    case = twins.sessions_with_ids(stream(SEED, "fooled", "sessions_with_ids"))
    user = case.log.user_ids
    assert user is not None
    is_last = np.zeros(len(user), bool)
    is_last[len(user) - 1 - np.unique(user[::-1], return_index=True)[1]] = True
    case.log.rewards[:] = rng.random(len(user)) < np.where(is_last, 0.4, 0.15)
    assert any("users' last visits earn" in each for each in reasons_of(case)[1])

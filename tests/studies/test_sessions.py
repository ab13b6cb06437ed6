"""The studies of visitors who come back: what is measured, and what pages say of made-up figures."""

from dataclasses import replace

import numpy as np
import pytest

from studies.offline_sessions import build_page as build_offline
from studies.offline_sessions.measuring import measure as measure_offline
from studies.offline_sessions.measuring import trained_on
from studies.session_curves import Learned, Learner, LearningRun, best_worth, learned_by, learning_curve
from studies.session_learners import build_page
from studies.session_learners.measuring import measure
from studies.session_logs import BANDIT, NO_TEASERS_FOR_TEN, SessionLogs
from studies.simulated_worth import PRECISION, simulated_worth
from studies.traps import build_page as build_traps
from studies.traps.measuring import BROKEN, DISCOUNT, RATE, RIGHT, SWEEPS, Diverged, two_states
from zoosim.core.errors import ConfigError
from zoosim.worlds.sessions.world import Sessions


def test_a_curve_is_looked_at_after_so_many_visits() -> None:
    rows = learning_curve(Learner("a table", "q-table", {}), 3, 1_200)
    assert [row.visits for row in rows] == [300, 1_000, 1_200]
    assert all(20.0 < row.percent < 60.0 for row in rows)
    # It explores at random nearly all the time: visitors bring what a random policy does, 26%, or a little more.
    assert 20.0 < rows[1].online < 40.0
    assert rows[0].believed is not None
    bandit = learning_curve(Learner("a bandit", "linucb", {}), 3, 2_000)
    assert bandit[-1].believed is None
    assert 55.0 < bandit[-1].percent < 66.7, "a bandit reaches what the best next click is worth, and no more"


@pytest.mark.slow
def test_the_worth_of_what_sees_no_state_is_simulated_as_precisely_as_said() -> None:
    world = Sessions(3, 400, observe="state")
    run = LearningRun(Learner("a bandit", "linucb", {}), world, 400)
    run.go_on(400)
    worth = simulated_worth(world, run.policy)
    assert worth.error < PRECISION * world.optimal_clicks
    assert abs(worth.clicks - best_worth(world, run.policy)) < 4.0 * worth.error
    anonymous = learning_curve(Learner("a bandit", "linucb", {}), 3, 400, "anonymous")[-1]
    assert 30.0 < anonymous.percent < 66.7
    assert anonymous.believed is None


def test_what_a_shop_sees_tells_a_planner_when_to_look_ahead() -> None:
    assert learning_curve(Learner("a planner", "planner", {}), 3, 300, "shop")[-1].percent > 75.0


def made_up(learner: str, percent: float, believed: float | None = None) -> list[Learned]:
    """Return figures of four seeds at two checkpoints."""
    return [
        Learned(learner, seed, visits, percent + seed - (visits == 300), 40.0, believed)
        for seed in range(4)
        for visits in (300, 1_000)
    ]


def test_the_page_says_whether_anybody_looks_ahead() -> None:
    bandit = made_up("linucb", 62.0)
    page = build_page([*bandit, *made_up("dqn", 90.0)])
    assert page.answer.startswith("Look ahead: dqn reaches 91.5 (")
    assert [row[0] for row in page.tables[0].rows] == ["linucb", "dqn"]
    assert page.tables[0].rows[1][-1] == "90.0"
    assert build_page(bandit).answer.startswith("Nobody looks ahead yet: linucb")


def test_the_page_of_mistakes_tells_the_worst() -> None:
    rows = made_up(RIGHT.name, 95.0, 96.0)
    for number, learner in enumerate(BROKEN.values()):
        rows += made_up(learner.name, 66.0 - number, 100.0)
    far = [Diverged(uniform, updates, two_states(updates, uniform)) for uniform in (True, False) for updates in SWEEPS]
    page = build_traps([*rows, *far])
    assert page.answer.startswith(f"Worst is {list(BROKEN)[-1]}: -33.0 ")
    assert len(page.tables[0].rows) == 1 + len(BROKEN)


def test_a_linear_learner_of_two_states_diverges_where_states_weigh_alike() -> None:
    growth = 1.0 + (6.0 * DISCOUNT - 5.0) * RATE
    assert two_states(10, True) == pytest.approx(growth**10)
    assert two_states(100, True) > 1_000.0
    assert 0.0 < two_states(1_000, False) < 0.02


def test_learners_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown learner 'dqm' \(did you mean dqn"):
        measure(seeds=1, learners=["dqm"])
    with pytest.raises(ConfigError, match=r"unknown observe 'shops' \(did you mean shop"):
        measure(seeds=1, observe="shops")
    assert learned_by(made_up("dqn", 90.0), "dqn", 300) == [89.0, 90.0, 91.0, 92.0]


def test_the_log_of_a_bandit_is_enough_for_a_model() -> None:
    row = trained_on(Learner("planner", "planner", {}), 3, BANDIT, 3_000)
    assert 90.0 < row.percent < 100.5
    assert row.writing == pytest.approx(52.9, abs=0.05), "what the bandit is worth"
    page = build_offline([row, replace(row, learner="linucb", percent=60.0)])
    assert page.answer == f"A bandit's log teaches planner {row.percent:.1f}% of the optimum."
    assert page.tables[0].heads == ("log by", "while written", "planner", "linucb")
    other = replace(row, writers=NO_TEASERS_FOR_TEN)
    page = build_offline([row, other, *(replace(each, learner="dqn", percent=80.0) for each in (row, other))])
    assert page.answer.endswith(f"; of the others dqn learns most, 80.0%, from: {NO_TEASERS_FOR_TEN}.")
    assert len(page.tables[0].rows) == 2


def test_a_log_by_visitor_says_how_likely_each_was_shown_what_it_was() -> None:
    logs = SessionLogs()
    log, places = logs.draw(3_000, 3, NO_TEASERS_FOR_TEN)
    assert log.lives is not None
    # The probability of what visitors of the other policy were shown in all, over that by the log: 1 on average, and at
    # most 1/share.
    other = logs.writers[NO_TEASERS_FOR_TEN].other[places[:, 0], places[:, 1], log.actions]
    weights = np.exp(np.bincount(log.lives.visitor, np.log(other / log.propensities)))
    assert abs(weights.mean() - 1.0) < 4 * weights.std() / np.sqrt(len(weights))
    assert weights.max() < 10.0 + 1e-9
    assert 0 < (weights > 5.0).sum() < 600, "those of the other policy, a tenth"


def test_a_log_of_so_many_visits_has_whole_lives() -> None:
    log, _ = SessionLogs().draw(500, 3, visits=500)
    assert log.lives is not None
    visits = np.unique(np.column_stack([log.lives.visitor, log.lives.visit]), axis=0)
    assert 500 <= len(visits) < 520
    assert log.lives.ended.sum() == log.lives.visitor.max() + 1


def test_writers_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown writer 'bandits'"):
        measure_offline(seeds=1, writers=["bandits"])

"""A described shop of sessions: the exact ladder, and whether planning is worth it there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from zoosim.core.tables import fit_table
from zoosim.descriptions import SessionsDescription, describe_sessions
from zoosim.descriptions.sessions import FOLLOWS_A_RULE, LOOKS_AT_CLICKS, PLANS, PLANS_A_VISIT
from zoosim.worlds.sessions.world import Sessions


def described(**config: Any) -> SessionsDescription:
    return describe_sessions(Sessions(0, 5_000, **config))


@pytest.fixture(scope="module")
def default() -> SessionsDescription:
    return described()


def test_planning_pays_at_the_defaults(default: SessionsDescription) -> None:
    assert default.advice == PLANS
    assert default.answer == (
        "Planning pays here: looking at the next click alone has 66.5% of the optimum, the best rule (shaped bandit, "
        "felt) 94.9%."
    )


@pytest.mark.parametrize(
    ("config", "advice", "sentence"),
    [
        (
            {"return_by_satisfaction": 0.2, "teaser": 0.4},
            FOLLOWS_A_RULE,
            "One rule is enough here: no teasers, with 97.8% of the optimum; looking at the next click alone has 45.7%",
        ),
        ({"return_by_satisfaction": 0.3}, FOLLOWS_A_RULE, "that is felt, with 98.6% of the optimum"),
        (
            {"return_by_satisfaction": 0.0},
            LOOKS_AT_CLICKS,
            "Looking ahead does not matter here: showing what is clicked",
        ),
        (
            # What is seldom clicked leads to what is clicked again and again; satisfaction does not matter.
            {
                "personas": {"all": {"lead": 0.05, "prize": 0.02, "plain": 0.2}},
                "companions": {"lead": "prize", "prize": "lead"},
                "intent": 5.0,
                "boredom": 0.5,
                "teaser": 0.0,
                "return_by_satisfaction": 0.0,
                "go_on": 0.95,
                "comes_back": 0.1,
            },
            PLANS_A_VISIT,
            "Planning a visit is enough here: it has 100.0% of the optimum, looking at the next click alone 32.3%.",
        ),
    ],
)
def test_what_it_takes_is_said_in_one_sentence(config: dict[str, Any], advice: str, sentence: str) -> None:
    shop = described(**config)
    assert shop.advice == advice
    assert sentence in shop.answer


def test_where_the_persona_is_hidden_guessing_it_is_told_apart() -> None:
    shop = described(observe="anonymous")
    assert (
        "Nobody sees the persona here: who guesses it gets 81.8% by planning (QMDP), 58.3% by the next" in shop.answer
    )
    table = "\n".join(fit_table(shop.table(), 80).lines)
    assert "9.97 ± 0.01" in table
    rung = next(rung for rung in shop.ladder if rung.policy.startswith("QMDP"))
    assert rung.clicked == pytest.approx(0.6, abs=0.1)
    assert rung.visits == pytest.approx(2.5, abs=0.5)


def test_the_ladder_rises_and_fits_80_columns(default: SessionsDescription) -> None:
    shares = [rung.share for rung in default.ladder]
    assert shares == sorted(shares)
    assert default.ladder[-1].policy == "optimum"
    fitted = fit_table(default.table(), 80)
    assert fitted.left_out == 0
    assert max(map(len, fitted.lines)) <= 80
    assert sum("teasers where satisfaction is full" in line for line in fitted.lines) == 1


def test_visits_and_clicks_are_those_of_the_study(default: SessionsDescription) -> None:
    """Another implementation: the optimum has 3.0 visits and .61 clicks a decision, the myopic policy 1.62 and .75."""
    rungs = {rung.policy: rung for rung in default.ladder}
    for name, visits, clicked in (("optimum", 3.0, 0.61), ("myopic", 1.62, 0.753)):
        assert rungs[name].visits == pytest.approx(visits, abs=0.01)
        assert rungs[name].clicked == pytest.approx(clicked, abs=0.005)


def test_the_optimum_shows_teasers_where_goodwill_is_full(default: SessionsDescription) -> None:
    optimum, myopic = (default.teasers[name] for name in ("optimum", "myopic"))
    assert optimum[-1] > 0.8 > 0.2 > optimum[3]
    np.testing.assert_allclose(myopic[~np.isnan(myopic)], 1.0)


def test_each_shock_has_an_optimum_of_its_own() -> None:
    shop = described(shocks=[{"step": 1_000, "name": "fish", "set": {"new_puppy_parent": {"Fish Supplies": 0.9}}}])
    opening, shocked = shop.periods
    assert (opening.start, opening.name) == (0, "")
    assert opening.stale == pytest.approx(1.0)
    assert (shocked.start, shocked.name) == (1_000, "fish")
    assert shocked.optimum > opening.optimum
    assert shocked.stale < 0.95


def test_figures_are_plain_data_for_json(tmp_path: Path) -> None:
    description = zoosim.describe("sessions", settings=["env.levels=2"], out=tmp_path, progress=None)
    figures = json.loads(json.dumps(description.as_dict(), allow_nan=False))
    assert figures["answer"] == description.answer
    assert figures["ladder"][-1]["policy"] == "optimum"
    assert figures["ladder"][-1]["clicks"] == pytest.approx(10.81, abs=0.005)
    assert None in figures["teasers"]["myopic"]

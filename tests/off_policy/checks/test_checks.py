"""Each check on a log that has the fault, and all of them on sound logs; the logs are those of the gallery, Q15."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from benchmarks.quality.fooled import dependence, propensities, rewards, sound, times
from benchmarks.quality.fooled.shop import Case, Way
from benchmarks.quality.fooled.third_round import amounts as third_amounts
from benchmarks.quality.fooled.third_round import places
from zoosim.core.rng import stream
from zoosim.logs.parse import to_log
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK

SEED = 3

FAULTS: list[tuple[Way, str, str]] = [
    (propensities.every_row_twice, DO_NOT_USE, "copies: 50.0% of the rows repeat another row in all that is logged"),
    (propensities.blocks_copied, DO_NOT_USE, "copies: 33.3% of the rows repeat another row in all that is logged"),
    (propensities.segments_twice, DO_NOT_USE, "copies: 50.0% of the rows"),
    (rewards.shifted_down, DO_NOT_USE, "rewards go by the choice in the row before, not by that of their own"),
    (rewards.shifted_up, DO_NOT_USE, "rewards go by the choice in the row after, not by that of their own"),
    (rewards.is_a_feature, WEAK, "column 5 is nearly the reward (correlation 1.000)"),
    (rewards.leaks_into_a_feature, WEAK, "the weights shift column 5 by"),
    (rewards.leaks_weakly_into_a_feature, WEAK, "column 5 goes with the choice beyond its propensity"),
    (rewards.time_on_page_as_feature, WEAK, "column 5 goes with the choice beyond its propensity"),
    (rewards.chances_with_a_glance_at_the_reward, WEAK, "the policy's probabilities go with rewards beyond"),
    (propensities.after_the_update, WEAK, "propensities go with rewards beyond what features and actions tell"),
    (rewards.pareto_1_2, DO_NOT_USE, "the largest rewards have a tail of index 1."),
    (dependence.users_of_many_visits, WEAK, "% of the rows repeat the features of another, as visits of a user do"),
    (dependence.ids_of_visits, WEAK, "% of the rows repeat the features of another, as visits of a user do"),
    (dependence.bot_of_many_faces, WEAK, "go together: their sums vary"),
    (places.regions_known_by_coordinates, WEAK, "rows with nearly the same column 5 go together"),
    (third_amounts.rows_of_a_host_lost, WEAK, "other visitors came: by their features, in the last"),
    (times.value_falls_by_a_quarter, WEAK, "the value is the mean over the log; in its last quarter it is"),
    (times.no_rewards_at_the_end, WEAK, "they may not have arrived yet: leave those rows out, or wait"),
    (times.late_rewards_without_times, WEAK, "they may not have arrived yet: leave those rows out, or wait"),
    (times.favourite_falls, WEAK, "of the rows: they may be late, its number may mean another product now"),
    (times.late_rewards_of_one_product, WEAK, "in the last 25% of the rows: they may be late"),
    (times.hour_moves_choice_and_clicks, WEAK, "the weights shift the hour of the day ("),
    (propensities.drawn_again_after_a_failure, WEAK, "times as often as its propensities say"),
    (propensities.drawn_again_until_clicked, WEAK, "actions that earn more are in the log more often"),
    (propensities.half_without_clicks_missing, WEAK, "actions that earn more are in the log more often"),
]


def reasons_of(case: Case, estimator: str = "ips") -> tuple[str, tuple[str, ...]]:
    """Return the verdict on the policy of a log, and the reasons."""
    evaluation = evaluate(case.log, case.policies, estimators=[estimator], interval="asymptotic", compare=False)
    return evaluation.results[-1].verdict, evaluation.results[-1].reasons


@pytest.mark.parametrize(("way", "word", "reason"), FAULTS, ids=[way.__name__ for way, _, _ in FAULTS])
def test_a_fault_is_named_and_never_trusted(way: Way, word: str, reason: str) -> None:
    verdict, reasons = reasons_of(way(stream(SEED, "fooled", way.__name__)))
    assert any(reason in each for each in reasons), reasons
    assert verdict in (word, DO_NOT_USE)


@pytest.mark.parametrize("way", sound.SOUND, ids=[way.__name__ for way in sound.SOUND])
def test_sound_logs_have_none_of_the_faults(way: Way) -> None:
    _, reasons = reasons_of(way(stream(SEED, "fooled", way.__name__)))
    # Figures of the estimate itself, which small and skewed logs lack.
    others = [each for each in reasons if "up the standard error" not in each and "no support" not in each]
    assert others == []


def test_many_products_and_features_are_judged_without_a_model_of_each() -> None:
    """Selection is looked for by models of all products' rewards; 10,000 of 31 weights each would be refused."""
    rng, rows, products = np.random.default_rng(0), 1_500, 10_000
    frame = pl.DataFrame(
        {
            "action": rng.integers(products, size=rows),
            "propensity": np.full(rows, 1.0 / products),
            "reward": rng.normal(size=rows),
            "user": rng.normal(size=(rows, 30)),
        }
    )
    log = to_log(frame, n_actions=products)
    evaluation = evaluate(
        log,
        {"u": np.full((rows, products), 1.0 / products)},
        estimators=["snips"],
        interval="asymptotic",
        compare=False,
    )
    assert np.isfinite(evaluation.results[-1].value)


def test_estimators_that_disagree_on_the_same_rows_are_not_trusted() -> None:
    """The model learned the reward from a feature, so dr goes by what no policy can know."""
    case = rewards.leaks_into_a_feature(stream(0, "fooled", "estimators"))
    evaluation = evaluate(case.log, {"p": case.policy}, interval="asymptotic", compare=False)
    assert all(row.verdict != TRUST for row in evaluation.results)
    assert any("of the same rows" in reason for row in evaluation.results for reason in row.reasons)


def test_a_number_that_rises_with_time_and_earns_nothing_is_no_change_of_visitors() -> None:
    for seed in range(4):
        case = sound.plain(stream(seed, "fooled", "rising"))
        n = len(case.log)
        rising = np.linspace(0.0, 1.0, n) + 0.1 * np.random.default_rng(seed).normal(size=n)
        log = replace(case.log, features=np.column_stack([case.log.features, rising]))
        _, reasons = reasons_of(Case(log, None, case.value))
        assert not any("other visitors came" in each for each in reasons), reasons


def test_a_log_without_a_reward_says_nothing_of_a_policy() -> None:
    case = sound.plain(stream(0, "fooled", "plain"))
    _, reasons = reasons_of(Case(replace(case.log, rewards=np.zeros(len(case.log))), None, 0.0))
    assert not any("chance allows" in each for each in reasons), reasons


def test_a_log_too_small_to_tell_is_judged_as_before() -> None:
    case = rewards.shifted_down(stream(0, "fooled", "few"))
    few = Case(case.log.rows(np.arange(90)), None, case.value)
    assert not any("rewards go by the choice" in each for each in reasons_of(few)[1])


def test_probabilities_that_rows_alike_share_know_no_reward() -> None:
    """Three segments: what a model leaves of the policy's probabilities is rounding, which may go with anything."""
    case = sound.segments_alone(stream(1014, "fooled", "segments_alone"))
    assert reasons_of(case) == (TRUST, ())


def test_a_policy_of_no_logged_choice_has_no_findings_on_its_weights() -> None:
    case = sound.plain(stream(SEED, "fooled", "plain"))
    case.log.columns["p_new"][:] = 0.0
    verdict, reasons = reasons_of(Case(case.log, None, 0.0))
    assert verdict == DO_NOT_USE
    assert not any("the weights shift" in reason for reason in reasons)


@pytest.mark.parametrize("unit", [1e-150, 1e50])
def test_the_unit_of_rewards_changes_no_finding(unit: float) -> None:
    """Fourth powers of the smaller rewards are 0."""
    case = dependence.bot_of_many_faces(stream(SEED, "fooled", "bot_of_many_faces"))
    scaled = Case(replace(case.log, rewards=case.log.rewards * unit), case.policy, case.value * unit)
    assert any("go together: their sums vary" in reason for reason in reasons_of(scaled)[1])

"""Policies judged by a log: all kinds of policies, the figures of each, and what is refused by name."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests.logs.test_open_bandit import real as real  # a fixture: the real logs
from tests.off_policy.worlds import TableWorld
from zoosim import Policy
from zoosim.api.runs import write_log
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.types import FloatArray, frozen
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.logs.open_bandit import read_open_bandit
from zoosim.logs.parse import read_log
from zoosim.models import linear_rewards
from zoosim.off_policy.actions import product_weights
from zoosim.off_policy.actions.products import DEFAULT, ESTIMATORS, NEED_MODEL
from zoosim.off_policy.diagnostics import error_figures, weight_figures
from zoosim.off_policy.estimators.clipping import choose_limit
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.clusters import group_sums, make_clusters
from zoosim.off_policy.results import Evaluation
from zoosim.off_policy.tables import evaluation_tables
from zoosim.off_policy.targets.products import spec_of
from zoosim.policies.registry import find_class

N = 3_000


def drawn(world: TableWorld, n: int = N, seed: int = 0) -> Log:
    """A log of a table world: contexts as one-hot features, the target's probabilities in a column."""
    rows, zeros = world.draw(np.random.default_rng(seed), n), np.zeros(n, np.int64)
    return Log(
        actions=rows.actions,
        propensities=world.logging[rows.contexts, rows.actions],
        rewards=rows.rewards,
        candidates=CandidateSets.everything(10),
        candidate_set=zeros,
        features=np.eye(4)[rows.contexts],
        positions=zeros,
        products=np.eye(10),
        columns={"p_new": world.target[rows.contexts, rows.actions]},
    )


def table(world: TableWorld, log: Log) -> FloatArray:
    return np.asarray(log.features @ world.target)


class Softmax(Policy):
    """The world's target policy, as a policy of one's own."""

    def select_action(self, context: Any) -> int:
        return int(self.rng.choice(10, p=self.weights(context)))

    def update(self, context: Any, action: int, reward: float, feedback: Any = None, next_context: Any = None) -> None:
        raise AssertionError("a policy that is judged learns nothing")

    def propensities(self, context: Any) -> FloatArray:
        return self.weights(context)

    def weights(self, context: Any) -> FloatArray:
        return np.asarray(context.user @ TableWorld(0, 0.5).target)


class Restless(Softmax):
    """A policy whose propensities move its state."""

    asked = 0

    def propensities(self, context: Any) -> FloatArray:
        self.asked += 1
        return super().propensities(context)

    def state_dict(self) -> dict[str, Any]:
        return {"asked": self.asked}


class TwoChances(Softmax):
    """A policy that gives too few propensities."""

    def propensities(self, context: Any) -> FloatArray:
        return np.array([0.5, 0.5])


class Favourite(Policy):
    """Always shows the product that its visitors click most: draws nothing, and has no propensities of its own."""

    def select_action(self, context: Any) -> int:
        self.rng.random()  # a draw that moves the generator must move nothing that is judged
        return int((context.user @ TableWorld(0, 0.5).clicks).argmax())

    def update(self, context: Any, action: int, reward: float, feedback: Any = None, next_context: Any = None) -> None:
        raise AssertionError("a policy that is judged learns nothing")


def made(cls: type[Policy], log: Log) -> Policy:
    return cls(spec_of(log), np.random.default_rng(0))


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    world = TableWorld(0, 0.5)
    log = drawn(world)
    policies = {"table": table(world, log), "column": "column:p_new", "policy": made(Softmax, log)}
    policies["function"] = lambda log, start, stop: log.features[start:stop] @ world.target
    return evaluate(log, policies, estimators=ESTIMATORS)


def test_a_policy_in_any_form_has_the_same_values(evaluation: Evaluation) -> None:
    by_form: dict[str, dict[str, tuple[Any, ...]]] = {}
    for row in evaluation.results:
        by_form.setdefault(row.policy, {})[row.estimator] = row[2:]
    assert list(by_form["table"]) == list(ESTIMATORS)
    for form in ("policy", "function"):
        for estimator, figures in by_form["table"].items():
            assert by_form[form][estimator][:6] == pytest.approx(figures[:6], rel=1e-9)
            assert by_form[form][estimator][6] == figures[6]
    assert list(by_form["column"]) == [name for name in ESTIMATORS if name not in NEED_MODEL]
    assert by_form["column"]["ips"][:6] == pytest.approx(by_form["table"]["ips"][:6], rel=1e-9)


def test_values_lie_where_the_truth_is(evaluation: Evaluation) -> None:
    """Within four standard errors of the true value; a sound log is trusted."""
    truth = TableWorld(0, 0.5).value
    for row in evaluation.results:
        assert row.low is not None
        assert row.high is not None
        assert abs(row.value - truth) < 4 * (row.high - row.low) / 3.92
    verdicts = {row.estimator: row.verdict for row in evaluation.results if row.policy == "table"}
    assert {verdicts[name] for name in DEFAULT} == {"trust"}


def test_the_summary_is_plain(evaluation: Evaluation) -> None:
    summary = json.loads(json.dumps(evaluation.summary, allow_nan=False))
    keys = {"policy", "estimator", "value", "low", "high", "ess", "mean_weight", "max_weight", "verdict", "reasons"}
    keys |= {"effective_rewards", "expected_rewards", "rests_on"}
    assert {frozenset(row) for row in summary["results"]} == {frozenset(keys)}
    assert (summary["rows"], summary["clusters"]) == (N, N)
    assert evaluation.table.height == len(evaluation.results)


def test_differences_are_of_each_pair_and_of_the_logged_choices(evaluation: Evaluation) -> None:
    found = {(d.policy, d.other): d for d in evaluation.differences if d.estimator == "snips"}
    assert set(found) == {
        *((name, "logged") for name in ("table", "column", "policy", "function")),
        *(("column", "table"), ("policy", "table"), ("policy", "column")),
        *(("function", other) for other in ("table", "column", "policy")),
    }
    assert abs(found["column", "table"].value) < 1e-12
    ahead = found["table", "logged"]
    value = next(row.value for row in evaluation.results if row[:2] == ("table", "snips"))
    assert ahead.value == pytest.approx(value - evaluation.logged.mean, abs=1e-12)


def test_a_deterministic_policy_is_judged_by_what_it_would_choose() -> None:
    log, world = drawn(TableWorld(0, 0.5)), TableWorld(0, 0.5)
    choice = world.clicks.argmax(axis=1)
    truth = float(world.clicks[np.arange(4), choice].mean())
    result = evaluate(log, {"favourite": made(Favourite, log)}, estimators=["ips"]).results[0]
    by_hand = (log.actions == (log.features @ choice).astype(int)) / log.propensities * log.rewards
    assert result.value == pytest.approx(by_hand.mean(), rel=1e-12)
    assert result.low is not None
    assert result.high is not None
    assert result.low < truth < result.high


def test_built_in_policies_are_judged_by_their_kernels(tmp_path: Path) -> None:
    """A uniform log of a shop: random has weights of 1; what runs out is no candidate."""
    change = "env.availability=[{step: 250, change: run-out, products: [1, 4], until: 400}]"
    write_log(tmp_path / "log.parquet", n=2_000, settings=[change, "env.n_products=6"])
    log = read_log(tmp_path / "log.parquet")
    policies = {name: made(find_class(name), log) for name in ("random", "greedy")}
    found = {row.policy: row for row in evaluate(log, policies, estimators=["ips", "dr"]).results}
    assert found["random"].value == pytest.approx(found["random"].value)
    assert (found["random"].max_weight, found["random"].mean_weight) == (1.0, 1.0)
    assert abs(found["greedy"].mean_weight - 1.0) < 0.3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda log: np.full((N, 10), 0.2), "policy p: row 0: probabilities add up to 2, expected 1"),
        (lambda log: np.full(9, 1 / 9), r"policy p: got probabilities of shape \(9,\)"),
        (lambda log: lambda log, start, stop: np.ones((3, 2)), "policy p: gives probabilities of shape"),
        (lambda log: "column:p_old", "policy p: the log has no column p_old; it has p_new"),
        (lambda log: made(Restless, log), "policy p: changed its state while it was judged"),
        (lambda log: Softmax(replace(spec_of(log), user_dim=7), np.random.default_rng(0)), "made for user_dim 7"),
        (lambda log: Softmax(replace(spec_of(log), product_dim=7), np.random.default_rng(0)), "made for product_dim 7"),
        (lambda log: made(TwoChances, log), r"policy p: row 0: gives propensities of shape \(2,\), expected \(10,\)"),
        (lambda log: holed(log, -0.1), "policy p: row 7: gives a probability of -0.1"),
        (lambda log: holed(log, np.nan), "policy p: row 7: gives a probability of nan, expected 0 to 1"),
    ],
)
def test_what_gives_no_probabilities_is_refused_by_name(given: Any, words: str) -> None:
    log = drawn(TableWorld(0, 0.5))
    with pytest.raises((PolicyError, ConfigError, DataError), match=words):
        evaluate(log, {"p": given(log)})


def holed(log: Log, value: float) -> FloatArray:
    found = table(TableWorld(0, 0.5), log)
    found[7, 2] = value
    return found


def test_probability_on_what_is_no_candidate_is_refused() -> None:
    log = drawn(TableWorld(0, 0.5))
    sets = np.ones((2, 10), bool)
    sets[1, 3] = False
    gone = (np.arange(N) == 5) & (log.actions != 3)
    log = replace(log, candidates=CandidateSets.from_masks(sets), candidate_set=gone.astype(np.int64))
    with pytest.raises(PolicyError, match="policy p: row 5: gives action 3 a probability, which is not among the cand"):
        evaluate(log, {"p": table(TableWorld(0, 0.5), log)})


def test_a_missing_target_probability_is_refused_by_row() -> None:
    log = drawn(TableWorld(0, 0.5))
    values = log.columns["p_new"].copy()
    values[11] = np.nan
    with pytest.raises(PolicyError, match=r"policy p: row 11: gives a probability of nan.*none may be missing"):
        evaluate(replace(log, columns={"p_new": values}), {"p": "column:p_new"})
    with pytest.raises(DataError, match="policy p: none of dr can do with the probabilities of logged actions alone"):
        evaluate(log, {"p": "column:p_new"}, estimators=["dr"])


def test_wrong_options_are_refused() -> None:
    log = drawn(TableWorld(0, 0.5))
    with pytest.raises(ConfigError, match=r"unknown estimator 'snip' .did you mean snips"):
        evaluate(log, {"p": "column:p_new"}, estimators=["snip"])
    with pytest.raises(ConfigError, match="unknown interval 'boot'"):
        evaluate(log, {"p": "column:p_new"}, interval="boot")
    with pytest.raises(ConfigError, match="policies: got none"):
        evaluate(log, {})


RANGES: list[Any] = [(1, 0), (0, 0), (0, np.nan), (0, np.inf), (0,), (0, 1, 2), "ab", (None, 1), 5]
ABSURD: list[tuple[str, list[Any], str]] = [
    ("estimators", [[], "ips", 3], "estimators: got .*expected a list of some"),
    ("estimators", [[1]], "unknown estimator '1'"),
    ("interval", [None], "unknown interval 'None'"),
    ("level", [0, 1, 95, np.nan, "a", None, True], "level: got .*, expected between 0 and 1"),
    ("level", [0.999], "samples: got 1000, expected at least 2,000 for a level of 0.999"),
    ("samples", [0, -1, 39, 1.5, "a", True], "samples: got .*, expected at least 40"),
    ("samples", [10**12], "and 10,000,000 at most"),
    ("seed", [-1, 1.5, None, 10**30], "seed: got .*, expected a whole number"),
    ("reward_range", RANGES, "reward_range: got .*, expected two finite numbers, the lower first"),
    ("reward_range", [(0.0, 0.5)], "rewards: got 1 in row [0-9]+, expected 0 to 0.5"),
]


@pytest.mark.parametrize(("option", "values", "words"), ABSURD)
def test_absurd_options_are_refused_whatever_the_interval(option: str, values: list[Any], words: str) -> None:
    log = drawn(TableWorld(0, 0.5), n=50)
    for value in values:
        for interval in ("bootstrap", "bernstein"):
            with pytest.raises((ConfigError, DataError), match=words):
                evaluate(log, {"p": "column:p_new"}, **{"interval": interval, option: value})


def test_all_intervals_are_there_and_the_safe_ones_are_wider() -> None:
    log = drawn(TableWorld(0, 0.5), n=20_000)
    widths = {}
    for interval in ("bootstrap", "asymptotic", "bernstein", "sequence"):
        row = evaluate(log, {"p": "column:p_new"}, estimators=["ips"], interval=interval).results[0]
        assert row.low is not None
        assert row.high is not None
        assert row.low < TableWorld(0, 0.5).value < row.high
        widths[interval] = row.high - row.low
    assert widths["asymptotic"] == pytest.approx(widths["bootstrap"], rel=0.1)
    assert widths["bootstrap"] < widths["bernstein"] < 20 * widths["bootstrap"]
    assert widths["bootstrap"] < widths["sequence"] < 20 * widths["bootstrap"]


def test_limits_are_chosen_between_too_little_and_too_much() -> None:
    """Light weights are left alone; a huge one is cut."""
    rng = np.random.default_rng(0)
    rewards, light = (rng.random(5_000) < 0.3).astype(np.float64), rng.uniform(0.5, 1.5, 5_000)
    assert choose_limit("clipped-ips", light, rewards) > 1.4
    heavy, one = light.copy(), int(rewards.argmax())
    heavy[one] = 50_000.0  # a weight that alone makes the value many times larger
    assert choose_limit("clipped-ips", heavy, rewards) < 40_000.0


def test_no_overlap_is_not_to_be_used_and_the_reason_is_said() -> None:
    """Half of the target's choices are an action that the log never shows."""
    log = drawn(TableWorld(0, 0.0))
    seen = log.rows(np.flatnonzero(log.actions != 9))
    world = TableWorld(0, 0.0)
    share = world.logging[:, :9].sum(axis=1)
    kept = seen.propensities / (seen.features @ share)
    target = np.zeros(10)
    target[[0, 9]] = 0.5
    for row in evaluate(replace(seen, propensities=kept), {"new": target}, estimators=("dm", *DEFAULT)).results:
        assert row.verdict == "do not use"
        reason = "shows 50% of its choices" if row.estimator == "dm" else "of its choices, action 9 most of all"
        assert any(reason in r for r in row.reasons)


def test_wrong_propensities_are_noticed() -> None:
    """All propensities too low by a third: the mean weight is 1.5."""
    log = drawn(TableWorld(0, 0.3))
    wrong = replace(log, propensities=log.propensities / 1.5)
    for row in evaluate(wrong, {"p": "column:p_new"}).results:
        assert row.mean_weight == pytest.approx(1.5, rel=0.05)
        assert row.verdict == "do not use"
        assert "mean weight is 1." in row.reasons[0]


def test_few_users_and_few_rewards_are_said() -> None:
    log = drawn(TableWorld(0, 0.3))
    few = evaluate(replace(log, user_ids=np.arange(N) % 5), {"p": "column:p_new"}, estimators=["ips"]).results[0]
    assert few.verdict == "do not use"
    assert any("5 independent users" in reason for reason in few.reasons)
    for count, word in ((0, "do not use"), (3, "do not use"), (12, "weak")):
        rewards = np.zeros(N)
        rewards[:count] = 1.0
        rare = evaluate(replace(log, rewards=rewards), {"p": "column:p_new"}, estimators=["ips"]).results[0]
        assert rare.verdict == word
        why = "up the standard error" if count else "all users or rows say the same"
        assert any(why in reason for reason in rare.reasons)


@pytest.mark.parametrize(("count", "is_compared"), [(60, True), (12, False), (3, False)])
def test_few_rewards_tell_nothing_apart(count: int, is_compared: bool) -> None:
    """However wide apart two estimates lie: product 2 alone is rewarded, and one policy shows it in every other row."""
    log = drawn(TableWorld(0, 0.3))
    rewards = np.zeros(N)
    rewards[np.flatnonzero(log.actions == 2)[:count]] = 1.0
    policies = {"half": 0.5 * np.eye(10)[2] + 0.05, "uniform": np.full(10, 0.1)}
    evaluation = evaluate(replace(log, rewards=rewards), policies, estimators=["ips", "snips", "dr"])
    assert {row.is_comparable for row in evaluation.results} == {is_compared}
    for rows in (evaluation.differences, evaluation.lifts, evaluation.ranking):
        assert bool(rows) == is_compared
    assert any(row.low is not None and row.low > 0.0 for row in evaluation.differences) == is_compared
    titles = [table.title for table in evaluation_tables(evaluation)]
    assert any(title.startswith("Differences") for title in titles) == is_compared


def test_the_real_women_logs_cannot_tell_of_a_uniform_policy(real: Path) -> None:
    log = read_open_bandit("bts", "women", real)
    found = evaluate(log, {"uniform": np.full(46, 1 / 46)}, estimators=ESTIMATORS)
    for row in found.results:
        if row.estimator == "dm":  # which rests on no weights
            continue
        assert row.verdict == "do not use"
        assert row.mean_weight == pytest.approx(3.134, abs=1e-3)
        assert row.max_weight == pytest.approx(21_739, abs=1)
        assert any("the mean weight is 3.13, expected 1" in reason for reason in row.reasons)


def test_trust_is_not_given_where_intervals_fail() -> None:
    """A log that hardly shows what the target chooses: its 95% intervals hold on fewer than 30 of 40 logs, and none is
    trusted; an effective sample size above 10, taken for enough, would let 15 or more pass. On a near target intervals
    hold, and are trusted."""
    held, trusted, passed = _told(TableWorld(12, 0.4))
    assert held >= 34
    assert trusted >= 38
    far = TableWorld(3, 0.0)
    shown = np.exp(3.0 * np.random.default_rng(53).normal(size=(4, 10)))
    far.logging, far.target = np.asarray(shown / shown.sum(axis=1, keepdims=True)), np.full((4, 10), 0.1)
    far.value = float(far.clicks.mean())
    held, trusted, passed = _told(far)
    assert held < 30
    assert trusted == 0
    assert passed >= 15


def _told(world: TableWorld) -> tuple[int, int, int]:
    """Of 40 logs of 1,000 rows, count intervals that hold, verdicts of trust, and effective sizes above 10."""
    held = trusted = passed = 0
    for run in range(40):
        log = drawn(world, 1_000, seed=run)
        row = evaluate(log, {"p": "column:p_new"}, estimators=["snips"], samples=200, seed=run).results[0]
        assert row.low is not None
        assert row.high is not None
        held += row.low <= world.value <= row.high
        trusted += row.verdict == "trust"
        passed += row.ess > 10
    return held, trusted, passed


def test_sums_do_not_depend_on_the_number_of_threads() -> None:
    """BLAS splits sums of more than 10,000 products among its threads, and then their last digits differ."""
    rng = np.random.default_rng(0)
    n = 200_000
    weights, clusters = rng.gamma(1.0, size=n), make_clusters(n, max_groups=n)
    told = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            sums = group_sums(clusters, Terms(weights))
            told.append((*error_figures(sums, None), *weight_figures(weights, clusters)))
    assert told[0] == told[1]


def test_nothing_is_compiled_anew_for_logs_that_cannot_be_written_to() -> None:
    """A log read from a file lies in read-only memory, one made in a program does not."""
    log = drawn(TableWorld(0, 0.5), n=400)
    evaluate(log, {"p": np.full(10, 0.1)})
    kernels: list[Any] = [product_weights._sound, linear_rewards.model_terms, linear_rewards._add_moments]
    compiled = [len(kernel.dispatcher.signatures) for kernel in kernels]
    assert min(compiled) > 0
    arrays = {name: frozen(getattr(log, name).copy()) for name in ("actions", "rewards", "features", "products")}
    evaluate(replace(log, **arrays), {"p": frozen(np.full((400, 10), 0.1))})
    assert [len(kernel.dispatcher.signatures) for kernel in kernels] == compiled


def test_the_sequence_takes_rows_in_order_of_time() -> None:
    """A log that its export sorted by clicks, told its times, is judged as it came; without them it cannot be."""
    log = replace(drawn(TableWorld(0, 0.5), n=2_000), times=np.arange(2_000))
    by_clicks = log.rows(np.argsort(-log.rewards, kind="stable"))
    found = [
        evaluate(one, {"p": "column:p_new"}, estimators=["ips"], interval="sequence").results[0]
        for one in (log, by_clicks, replace(by_clicks, times=None))
    ]
    assert found[1][3:5] == found[0][3:5]
    assert found[2].low is not None
    assert found[2].low > TableWorld(0, 0.5).value


def test_no_policy_is_called_what_the_logged_choices_are() -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    with pytest.raises(ConfigError, match="policies: got one named logged"):
        evaluate(log, {"logged": "column:p_new", "b": np.full(10, 0.1)})


def test_a_rate_of_clicks_lies_between_0_and_1() -> None:
    """Few rows and rare clicks: the asymptotic interval reaches below 0, which no rate of clicks can."""
    log = drawn(TableWorld(0, 0.5), n=300)
    few = replace(log, rewards=(np.arange(300) % 100 == 0).astype(float))
    options: dict[str, Any] = {"estimators": ["snips"], "interval": "asymptotic"}
    uniform = {"uniform": np.full(log.n_actions, 1 / log.n_actions)}
    assert evaluate(few, uniform, **options).results[0].low == 0.0
    amounts = evaluate(replace(few, rewards=2.0 * few.rewards), uniform, **options).results[0]
    assert amounts.low is not None
    assert amounts.low < 0.0


def test_a_range_of_rewards_that_was_taken_from_the_log_is_said() -> None:
    """Amounts may be larger than any seen; clicks may not."""
    clicks = drawn(TableWorld(0, 0.3), n=2_000)
    amounts = replace(clicks, rewards=2.5 * clicks.rewards)
    for interval in ("bernstein", "sequence"):
        options: dict[str, Any] = {"estimators": ["ips"], "interval": interval}
        assert evaluate(clicks, {"p": "column:p_new"}, **options).results[0].verdict == "trust"
        guessed = evaluate(amounts, {"p": "column:p_new"}, **options).results[0]
        assert guessed.verdict == "weak"
        assert guessed.reasons[0].endswith("pass reward_range=(low, high)")
        assert evaluate(amounts, {"p": "column:p_new"}, reward_range=(0, 9), **options).results[0].verdict == "trust"
        wrong = replace(amounts, propensities=amounts.propensities / 3.0)
        worse = evaluate(wrong, {"p": "column:p_new"}, **options).results[0]
        assert worse.verdict == "do not use"
        assert worse.reasons[0].startswith("the mean weight is")
        assert worse.reasons[-1] == guessed.reasons[0]


def test_a_policy_that_makes_no_logged_choice_has_no_estimate_and_spoils_no_others() -> None:
    """With self-normalised estimators alone there is nothing to resample: all weights are 0."""
    log = drawn(TableWorld(0, 0.5))
    log = log.rows(log.actions != 9)
    never = np.eye(10)[9]
    with pytest.raises(DataError, match=r"no overlap: none of the policies \(never\) ever chooses a logged action"):
        evaluate(log, {"never": never}, estimators=["snips"])
    uniform = np.full(10, 0.1)
    both = evaluate(log, {"never": never, "uniform": uniform}, estimators=["snips"])
    rows = {row.policy: row for row in both.results}
    assert np.isnan(rows["never"].value)
    assert rows["never"].verdict == "do not use"
    alone = evaluate(log, {"uniform": uniform}, estimators=["snips"])
    assert rows["uniform"] == alone.results[0]

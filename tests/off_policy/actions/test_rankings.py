"""Policies judged by logs of rankings: values against a listing of all rankings, forms of policies, what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.commands import run_zoosim
from tests.off_policy.ranked import RANKINGS, TARGET, K, L, RankedWorld, marginal
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.types import FloatArray
from zoosim.logs.parse import to_log
from zoosim.logs.positions import at_position
from zoosim.off_policy.actions.ranking_weights import predict
from zoosim.off_policy.actions.rankings import ESTIMATORS
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.targets.rankings import SequentialDraws, make_ranking_target, marginals

TIGHT = 1e-10
SOUND = {"standard": ("own", "above", "all"), "cascade": ("own", "above"), "independent": ("own",)}


class Left(zoosim.Policy):
    """The target as a policy: draws from what is left."""

    learns = False

    def select_action(self, context: zoosim.Context) -> int:
        raise AssertionError("is asked for its propensities alone")

    def update(
        self, context: zoosim.Context, action: int, reward: float, feedback: Any = None, next_context: Any = None
    ) -> None:
        raise AssertionError("learns nothing while it is judged")

    def propensities(self, context: zoosim.Context) -> FloatArray:
        return np.asarray(np.where(context.available, TARGET, 0.0) / TARGET[context.available].sum())


class Best(zoosim.Policy):
    """Always shows the available action with the highest number."""

    learns = False

    def select_action(self, context: zoosim.Context) -> int:
        return int(np.flatnonzero(context.available).max())

    def update(
        self, context: zoosim.Context, action: int, reward: float, feedback: Any = None, next_context: Any = None
    ) -> None:
        raise AssertionError("learns nothing while it is judged")


def values(frame: pl.DataFrame, policy: Any, estimators: Any = ESTIMATORS) -> dict[str, float]:
    found = zoosim.evaluate(frame, {"p": policy}, rankings=True, estimators=estimators, samples=100)
    return {row.estimator: row.value for row in found.results}


@pytest.mark.parametrize("depends", ["own", "above", "all"])
def test_estimators_meet_the_truth_over_all_rankings(depends: str) -> None:
    """Every ranking as often as is likely, five times, so that each fold holds all: the truth where an estimator's
    assumption holds, and off where it does not."""
    world = RankedWorld(depends)
    found = values(world.listed(5), TARGET)
    assert list(found) == list(ESTIMATORS)
    for estimator, value in found.items():
        sound = depends in SOUND[estimator.partition("-")[0]]
        assert (abs(value - world.truth) < TIGHT) == sound, estimator
        assert sound or abs(value - world.truth) > 0.001, estimator


def test_a_policy_in_any_form_has_the_same_values() -> None:
    frame = RankedWorld("above").listed(5)
    n = frame.height // L
    expected = values(frame, TARGET)
    forms: list[Any] = [np.tile(TARGET, (n, 1)), lambda log, start, stop: np.tile(TARGET, (stop - start, 1)), Left]
    for form in forms:
        assert values(frame, form) == pytest.approx(expected, abs=1e-9)
    column = values(frame, "column:p_new")
    assert column == pytest.approx({name: expected[name] for name in ESTIMATORS if not name.endswith("dr")}, abs=1e-9)
    found = zoosim.evaluate(frame, {"p": TARGET, "column": "column:p_new"}, rankings=True)
    assert [row[:2] for row in found.results] == [("p", "cascade-ips"), ("p", "cascade-dr"), ("column", "cascade-ips")]
    assert (found.n, found.unit) == (n, "visits")


def test_a_policy_that_draws_nothing_shows_its_next_best() -> None:
    world = RankedWorld("all")
    truth = world.rewards[RANKINGS.index((3, 2, 1))].sum()
    assert values(world.listed(5), Best, ["standard-ips", "standard-dr"]) == pytest.approx(
        {"standard-ips": truth, "standard-dr": truth}, abs=1e-9
    )


def test_no_visit_is_guessed_by_a_model_that_has_seen_it() -> None:
    """Rewards of one fold reversed: its own guesses stay as they are, others' move."""
    world = RankedWorld("above")
    rng = np.random.default_rng(0)
    which = rng.integers(len(RANKINGS), size=200)
    rewards = (rng.random((200, L)) < world.rewards[which]).astype(float)
    own = make_clusters(200).group % 5 == 2
    turned = np.where(own[:, None], 1.0 - rewards, rewards)
    guesses = []
    for told in (rewards, turned):
        log = to_log(world.frame(which, told), action_space="rankings")
        target = make_ranking_target(TARGET, log)
        assert isinstance(target, SequentialDraws)
        guesses.append(predict([log], target, make_clusters(200))[0])
    for before, after in zip(*guesses, strict=True):
        assert np.array_equal(before[own], after[own])
        assert (before[~own] != after[~own]).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("logs", "least"), [(40, 34), (100, 89)])
def test_intervals_hold_where_the_assumption_does(logs: int, least: int) -> None:
    """Clicks that depend on what stands above, logs of 400 visits: 95% intervals of cascade estimators hold on as many
    as three binomial standard errors allow; those of independent ones, which take no notice, on fewer than 80%."""
    world = RankedWorld("above", seed=2)
    held = dict.fromkeys(("cascade-ips", "cascade-dr", "independent-ips"), 0)
    chances = world.counts / world.counts.sum()
    for run in range(logs):
        rng = np.random.default_rng(run)
        which = rng.choice(len(RANKINGS), 400, p=chances)
        frame = world.frame(which, (rng.random((400, L)) < world.rewards[which]).astype(float))
        found = zoosim.evaluate(frame, {"p": TARGET}, rankings=True, estimators=list(held), samples=200, seed=run)
        for row in found.results:
            assert row.low is not None
            assert row.high is not None
            held[row.estimator] += row.low <= world.truth <= row.high
    assert held["cascade-ips"] >= least
    assert held["cascade-dr"] >= least
    assert held["independent-ips"] < 0.8 * logs


def changed(row: int, **values: Any) -> pl.DataFrame:
    frame = RankedWorld("own").listed(1).with_columns(user_id=pl.col("decision_id"))
    here = pl.int_range(pl.len()) == row
    return frame.with_columns(pl.when(here).then(pl.lit(v)).otherwise(pl.col(k)).alias(k) for k, v in values.items())


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (lambda: changed(7, position=0), r"row 7, column position: got 0, expected 0, 1, \.\.\. in each visit"),
        (lambda: changed(8, position=3), "row 8, column position: got 3, expected 0, 1, .* without gaps; 1 of"),
        (lambda: changed(0).slice(0, 8), "row 6, column decision_id: got 'visit 2', expected one that 3 rows share"),
        (
            lambda: changed(7, action=0).with_columns(),
            "row 7, column action: got 0, expected one that the visit does not",
        ),
        (lambda: changed(8, user_id="visit 0"), "row 8, column user_id: got 'visit 0', expected the same in all rows"),
        (lambda: changed(8, propensity=0.0), "row 8, column propensity: got 0.0, expected above 0 and at most 1"),
        (lambda: changed(8, marginal_propensity=1.5), "row 8, column marginal_propensity: got 1.5, expected above 0"),
        (lambda: changed(0).drop("position"), "column position is missing; rows of a ranking share their decision_id"),
        (lambda: changed(0).with_columns(decision_id=None), "column decision_id holds nothing; rows of a ranking"),
    ],
)
def test_bad_visits_are_refused_by_row_and_column(frame: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        zoosim.evaluate(frame(), {"p": TARGET}, rankings=True)


def test_a_visit_with_a_bad_row_is_skipped_whole_when_asked() -> None:
    found = zoosim.evaluate(changed(7, reward=np.nan), {"p": TARGET}, rankings=True, skip_bad=True)
    whole = changed(0).height // L
    assert found.n == whole - 1
    assert sum(found.skipped.values()) == L


def test_a_visit_whose_id_is_missing_is_skipped_when_asked() -> None:
    frame = changed(0).with_columns(decision_id=pl.when(pl.int_range(pl.len()) >= L).then("decision_id"))
    found = zoosim.evaluate(frame, {"p": TARGET}, rankings=True, skip_bad=True)
    assert found.n == frame.height // L - 1
    assert sum(found.skipped.values()) == L


def test_rows_in_any_order_are_the_same_visits() -> None:
    frame = RankedWorld("above").listed(2)
    mixed = frame.sample(fraction=1.0, shuffle=True, seed=0).with_columns(pl.col("position") + 1)
    assert values(mixed, TARGET, ["cascade-ips"]) == pytest.approx(values(frame, TARGET, ["cascade-ips"]), rel=1e-12)


def test_without_being_asked_rankings_are_refused_as_duplicates() -> None:
    with pytest.raises(
        DataError, match=r"row 1, column decision_id: got 'visit 0', expected .* no earlier row has .*--rank"
    ):
        zoosim.evaluate(RankedWorld("own").listed(1), {"p": TARGET})


@pytest.mark.parametrize(
    ("policy", "options", "words"),
    [
        ("column:p_old", {}, "no column of numbers"),
        (np.full(3, 1 / 3), {}, r"policy p: got probabilities of shape \(3,\)"),
        (np.full(4, 0.5), {}, "policy p: position 1, row 0: probabilities add up to 2, expected 1"),
        (
            np.array([0.5, 0.5, 0.0, 0.0]),
            {},
            "policy p: visit 0: gives 2 actions a probability above 0, a ranking shows 3",
        ),
        (TARGET, {"estimators": ["ips"]}, "unknown estimator 'ips'; known: standard-ips"),
        ("learned:linear", {}, "is now the policy linear; write --policy linear --train"),
        (
            "linucb",
            {},
            "policy p: has learned nothing yet, so there is nothing to judge; give a FILE.npz of zoosim.save_policy$",
        ),
        (
            TARGET,
            {"train": True},
            r"train: here policies learn from logs of single actions alone; .* zoosim.save_policy$",
        ),
        ("column:p_new", {"estimators": ["independent-ips"]}, "need the column marginal_NAME beside the column NAME"),
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(policy: Any, options: dict[str, Any], words: str) -> None:
    frame = RankedWorld("own").listed(1).drop("marginal_p_new")
    with pytest.raises((ConfigError, DataError, PolicyError), match=words):
        zoosim.evaluate(frame, {"p": policy}, rankings=True, **options)


def test_independent_estimators_need_marginal_probabilities() -> None:
    frame = RankedWorld("own").listed(1)
    with pytest.raises(DataError, match=r"policy p: .*need the column marginal_propensity of the log"):
        values(frame.drop("marginal_propensity"), TARGET, ["independent-ips"])
    log = to_log(frame, n_actions=3_000, action_space="rankings")
    with pytest.raises(ConfigError, match="marginal probabilities: got 4,501,501 sets of actions"):
        zoosim.evaluate(log, {"p": np.full(3_000, 1 / 3_000)}, estimators=["independent-ips"])


def test_marginal_probabilities_are_those_of_each_visit() -> None:
    """Two kinds of visits, told apart: against a listing of all rankings."""
    rng = np.random.default_rng(0)
    frame = RankedWorld("own").listed(1)
    log = to_log(frame, action_space="rankings")
    shares = np.where(rng.random(len(log))[:, None] < 0.5, TARGET, TARGET[::-1])
    target = make_ranking_target(shares, log)
    assert isinstance(target, SequentialDraws)
    found = marginals(log, target)
    listed = np.array([[marginal(a, place) for a in range(K)] for place in range(L)])
    for visit, own in enumerate(shares):
        wanted = listed if own[0] == TARGET[0] else listed[:, ::-1]
        assert np.array([shown[visit] for shown in found]) == pytest.approx(wanted, abs=TIGHT)


def test_bounds_for_any_size_hold_the_truth_without_assumptions() -> None:
    world = RankedWorld("all")
    for interval in ("bernstein", "sequence"):
        which = np.random.default_rng(0).permutation(np.repeat(np.arange(len(RANKINGS)), 40 * world.counts))
        frame = world.frame(which, world.rewards[which])
        found = zoosim.evaluate(frame, {"p": TARGET}, rankings=True, interval=interval, reward_range=(0, 3))
        for row in found.results:
            assert row.low is not None
            assert row.high is not None
            assert row.low < world.truth < row.high


def test_the_choices_of_a_position_leave_out_those_above() -> None:
    log = to_log(RankedWorld("own").listed(1), action_space="rankings")
    below = at_position(log, 1)
    assert below.action_space == "products"
    available = below.available(0, len(log))
    assert (available.sum(axis=1) == K - 1).all()
    assert not available[np.arange(len(log)), log.actions[:, 0]].any()


def test_rankings_are_judged_on_the_command_line(tmp_path: Path) -> None:
    world = RankedWorld("above")
    # Shuffled: rows alike in all that is logged, one after another, are taken for copies.
    world.listed(20).sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "log.parquet")
    line = ("evaluate", "log.parquet", "--rankings", "--policy", "column:p_new", "--policy", "random")
    done = run_zoosim(*line, "--json", "--out", "page", cwd=tmp_path)
    assert (done.code, done.errors) == (0, [])
    rows = json.loads(done.out)["results"]
    assert [(row["policy"], row["estimator"]) for row in rows] == [
        ("p_new", "cascade-ips"),
        *(("random", estimator) for estimator in ("cascade-ips", "cascade-dr")),
    ]
    assert rows[0]["value"] == pytest.approx(world.truth, abs=TIGHT)
    assert rows[0]["verdict"] == "trust"
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "zoosim evaluate log.parquet --policy column:p_new --policy random --rankings" in page
    assert "visit 1<" not in page


def test_the_range_of_a_visits_clicks_is_a_guess_where_it_shows_several_positions() -> None:
    """A log in which no visit clicks twice does not tell that none could."""
    frame = RankedWorld("own").listed(2).with_columns(reward=(pl.col("position") == pl.col("action")).cast(pl.Float64))
    once = frame.filter(pl.col("reward").sum().over("decision_id") <= 1.0)
    options: dict[str, Any] = {"rankings": True, "interval": "bernstein"}
    found = zoosim.evaluate(once, {"p": TARGET}, **options)
    assert all(any(reason.endswith("pass reward_range=(low, high)") for reason in row.reasons) for row in found.results)
    told = zoosim.evaluate(once, {"p": TARGET}, reward_range=(0, L), **options)
    assert not any(reason.endswith("reward_range") for row in told.results for reason in row.reasons)
    top = once.filter(pl.col("position") == 0)
    alone = zoosim.evaluate(top, {"p": TARGET}, **options)
    assert not any(reason.endswith("reward_range") for row in alone.results for reason in row.reasons)
    with pytest.raises(DataError, match=r"rewards: got [23] in visit [0-9]+, expected 0 to 1 \(reward_range\)"):
        zoosim.evaluate(frame, {"p": TARGET}, reward_range=(0, 1), **options)


@pytest.mark.parametrize("target", [[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
def test_a_policy_that_cannot_fill_a_ranking_is_told_so(target: list[float]) -> None:
    shown = sum(p > 0.0 for p in target)
    words = f"policy p: visit 0: gives {shown} actions a probability above 0, a ranking shows 3; give each that it may"
    for given in (np.array(target), lambda log, start, stop: np.tile(target, (stop - start, 1))):
        with pytest.raises(PolicyError, match=words):
            zoosim.evaluate(RankedWorld("own").listed(1), {"p": given}, rankings=True)

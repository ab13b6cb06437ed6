"""Policies judged by logs of continuous boosts: values against exact integrals, bandwidths, verdicts, refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.commands import run_zoosim
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.types import Context, FloatArray
from zoosim.logs.parse import to_log
from zoosim.off_policy.actions.boosts import DENSITY, KERNEL
from zoosim.off_policy.estimators.boosts import kernel_weights
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.models.boost_model import fit_boost_model
from zoosim.off_policy.results import Evaluation
from zoosim.policies.boosts.simple import ConstantBoosts
from zoosim.policies.checks.search_shop import SMALL
from zoosim.policies.registry import find_class

TIGHT = 1e-10


def parabola(actions: FloatArray) -> FloatArray:
    """A reward whose value and curvature are known: the curvatures are -0.7 in each coordinate."""
    return np.asarray((2.0 + 0.3 * actions - 0.7 * actions**2).sum(axis=1))


def quadrature(low: FloatArray, high: FloatArray, nodes: int = 12, times: int = 5) -> pl.DataFrame:
    """A log whose means are integrals over a box, exact for polynomials: Gauss-Legendre nodes, each `times` in turn.

    A row stands for the volume around it: its density is 1 over rows times weight.
    """
    at, weight = np.polynomial.legendre.leggauss(nodes)
    d = len(low)
    axes = [0.5 * (b - a) * at + 0.5 * (a + b) for a, b in zip(low, high, strict=True)]
    actions = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    weights = np.stack([w.ravel() for w in np.meshgrid(*([weight] * d), indexing="ij")], axis=1)
    volumes = (weights * 0.5 * (high - low)).prod(axis=1)
    rows = np.repeat(np.arange(len(actions)), times)
    columns = {"action": actions[rows], "propensity": 1.0 / (len(actions) * volumes[rows])}
    return pl.DataFrame({**columns, "reward": parabola(actions[rows])})


def shop(d: int, n: int, seed: int, sharp: float = 1.0, noise: float = 0.3) -> tuple[pl.DataFrame, FloatArray]:
    """A uniform log on [-1, 1]^d, and the best boosts: visits lose `sharp` times the mean squared distance to them."""
    rng = np.random.default_rng((seed, d))
    features, actions = rng.normal(size=(n, 2)), rng.uniform(-1.0, 1.0, (n, d))
    best = 0.6 * np.tanh(features @ np.random.default_rng(d).normal(size=(2, d)))
    rewards = 1.0 - sharp * ((actions - best) ** 2).mean(axis=1) + noise * rng.normal(size=n)
    columns = {"action": actions, "propensity": np.full(n, 2.0**-d), "reward": rewards, "user": features}
    return pl.DataFrame(columns), best


def judged(frame: Any, policy: Any, **options: Any) -> Evaluation:
    return zoosim.evaluate(frame, {"p": policy}, **{"a_max": 1.0, **options})


@pytest.mark.parametrize("d", [1, 2])
def test_kernel_estimators_meet_the_integral_of_the_blurred_reward(d: int) -> None:
    """Epanechnikov's kernel has variance 1/5: a bandwidth of h adds curvature times h^2 / 5 in each coordinate. The
    reward model knows the parabola, so that the doubly robust value has next to no bias left."""
    target, h = np.linspace(0.1, 0.2, d), 0.4
    frame = quadrature(target - h, target + h)
    found = {row.estimator: row.value for row in judged(frame, target, bandwidth=h, samples=100).results}
    truth = float(parabola(target[None])[0])
    blurred = truth - 0.7 * d * h**2 / 5.0
    assert list(found) == list(KERNEL)
    assert abs(found["kernel-ips"] - blurred) < TIGHT
    assert abs(found["kernel-snips"] - blurred) < TIGHT
    assert abs(found["kernel-dr"] - truth) < 0.2 * abs(blurred - truth)


def test_densities_meet_the_integral() -> None:
    """Drawn by (1 + a) / 2 on [-1, 1]: the mean of a is 1/3, that of a^2 is 1/3."""
    frame = quadrature(-np.ones(1), np.ones(1))
    frame = frame.with_columns(tilt=(1.0 + frame["action"].arr.first()) / 2.0)
    found = {row.estimator: row.value for row in judged(frame, "column:tilt").results}
    truth = 2.0 + 0.3 / 3.0 - 0.7 / 3.0
    assert list(found) == list(DENSITY)
    assert abs(found["ips"] - truth) < TIGHT
    assert abs(found["snips"] - truth) < TIGHT


def test_boosts_in_any_form_have_the_same_values() -> None:
    frame, _ = shop(2, 500, 0)
    same = np.array([0.2, -0.1])
    rows = np.tile(same, (500, 1))
    expected = judged(frame, same).results
    assert [row.estimator for row in expected] == list(KERNEL)
    forms: list[Any] = [rows, lambda log, start, stop: rows[start:stop]]
    assert all(judged(frame, form).results == expected for form in forms)
    lists = frame.with_columns(pl.col("action").arr.to_list(), pl.col("user").arr.to_list())
    assert judged(to_log(lists, a_max=1.0), same, a_max=None).results == expected


@pytest.mark.slow
def test_intervals_hold_and_fail_for_a_bandwidth_that_is_too_wide() -> None:
    """60 logs of 1,000 visits: 95% intervals hold on 51 or more (three binomial standard errors); those of a kernel as
    wide as the box on fewer than 10, and none is then trusted."""
    held = {"chosen": 0, "wide": 0}
    for run in range(60):
        frame, best = shop(1, 1_000, run)
        for name, given in (("chosen", None), ("wide", 2.0)):
            options = {"estimators": ["kernel-snips"], "samples": 200, "seed": run, "bandwidth": given}
            row = judged(frame, best, **options).results[0]
            assert row.low is not None
            assert row.high is not None
            held[name] += row.low <= 1.0 <= row.high
            assert given is None or row.verdict == "do not use"
    assert held["chosen"] >= 51
    assert held["wide"] < 10


def test_what_a_bandwidth_does_is_said_and_judged() -> None:
    frame, best = shop(1, 2_000, 0)
    wide = judged(frame, best, bandwidth=1.0, estimators=["kernel-snips"])
    assert wide.results[0].verdict == "do not use"
    assert "halving the bandwidth to 1 moved the value by" in wide.results[0].reasons[0]
    assert wide.notes["p"][0].startswith("kernel-snips: bandwidth 1; halving it to this moved the value by")
    assert wide.summary["notes"]["p"] == list(wide.notes["p"])
    sound = judged(frame, best, bandwidth=0.1, estimators=["kernel-snips"])
    assert sound.results[0].verdict == "trust"


def test_the_page_tells_of_bandwidths_and_draws_no_actions(tmp_path: Path) -> None:
    frame, best = shop(1, 500, 0)
    options = {"estimators": ["kernel-ips", "kernel-dr"], "interval": "asymptotic", "samples": 1_000, "skip_bad": True}
    found = judged(frame, best, out=tmp_path / "page", bandwidth=0.25, **options)
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert found.notes["p"][0] in page
    assert "Overlap by action" not in page
    typed = "--bandwidth 0.25 --estimators kernel-ips,kernel-dr --interval asymptotic --a-max 1.0 --skip-bad --out"
    assert typed in page
    assert found.overlaps["p"].actions == ()


def test_the_page_takes_options_of_any_kind(tmp_path: Path) -> None:
    frame = shop(1, 200, 0)[0].with_columns(tilt=0.5)
    options = {"estimators": {"ips"}, "interval": "bernstein", "reward_range": np.array([-9.0, 9.0])}
    judged(frame, "column:tilt", out=tmp_path / "page", **options)
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "--estimators ips --interval bernstein --reward-range -9.0:9.0 --a-max 1.0 --out" in page


def test_ten_boosts_at_once_are_too_many_for_a_kernel() -> None:
    frame, best = shop(10, 3_000, 0)
    for options in ({}, {"bandwidth": 0.5}):
        found = judged(frame, best, **options)
        assert {row.verdict for row in found.results} == {"do not use"}
        reasons = [reason for row in found.results for reason in row.reasons]
        assert any("effective" in reason for reason in reasons)


def test_a_sharper_reward_gets_a_narrower_bandwidth() -> None:
    widths = []
    for sharp in (0.0, 1.0, 20.0):
        frame, best = shop(1, 3_000, 1, sharp)
        note = judged(frame, best, estimators=["kernel-snips"]).notes["p"][0]
        widths.append(float(note.split("bandwidth ")[1].split(";")[0]))
    assert widths[0] > widths[1] > widths[2]


def test_no_visit_is_guessed_by_a_model_that_has_seen_it() -> None:
    frame, best = shop(2, 300, 0)
    own = make_clusters(300).group % 5 == 2
    rewards = frame["reward"].to_numpy()
    turned = np.where(own, rewards.max() + rewards.min() - rewards, rewards)
    turned[[0, 1]] = rewards.min(), rewards.max()  # in other folds: what guesses are cut to stays as it is
    start = np.where(np.isin(np.arange(300), [0, 1]), turned, rewards)
    before, after = (
        fit_boost_model(to_log(frame.with_columns(reward=pl.Series(told)), a_max=1.0), make_clusters(300)).predict(best)
        for told in (start, turned)
    )
    assert np.array_equal(before[own], after[own])
    assert (before[~own] != after[~own]).mean() > 0.9


def boost_frame(n: int = 40) -> pl.DataFrame:
    """A uniform log of the made-up search shop of the contract: 8 features, 4 boosts in [-2, 2]."""
    rng = np.random.default_rng(0)
    features = np.array([SMALL.context(visit).features for visit in range(n)])
    actions = rng.uniform(-2.0, 2.0, (n, 4))
    return pl.DataFrame(
        {"action": actions, "propensity": np.full(n, 4.0**-4), "reward": rng.random(n), "user": features}
    )


def test_policies_of_boosts_are_asked_where_the_log_tells_enough() -> None:
    frame, rng = boost_frame(), np.random.default_rng(0)
    constant = find_class("constant-boosts")(SMALL.spec, rng, boosts="0.5")
    aimed = zoosim.evaluate(frame, {"p": constant, "same": np.full(4, 1.0)}, a_max=2.0)
    half = len(KERNEL)
    assert [row[2:] for row in aimed.results[:half]] == [row[2:] for row in aimed.results[half:]]
    drawn = zoosim.evaluate(frame, {"p": find_class("random-boosts")(SMALL.spec, rng)}, a_max=2.0).results
    assert [(row.estimator, row.max_weight) for row in drawn] == [("ips", 1.0), ("snips", 1.0)]
    for name in ("item-critic", "q-ensemble"):
        with pytest.raises(PolicyError, match=r"policy p: row 0: decides by more than the log holds .*base_scores"):
            zoosim.evaluate(frame, {"p": find_class(name)(SMALL.spec, rng)}, a_max=2.0)
    named = zoosim.evaluate(frame, ["random-boosts", "constant-boosts", "normal-boosts"], a_max=2.0)
    assert [(row.policy, row.max_weight) for row in named.results][:2] == [("random-boosts", 1.0)] * 2
    assert {row.estimator for row in named.results if row.policy == "constant-boosts"} == set(KERNEL)
    assert {row.estimator for row in named.results if row.policy == "normal-boosts"} == set(DENSITY)
    with pytest.raises(PolicyError, match="policy random: chooses among actions, and the log holds boosts"):
        zoosim.evaluate(frame, ["random"], a_max=2.0)


class Own(ConstantBoosts):
    """A user's own policy, whose answers a test sets."""

    name = "own"
    answer: Any = staticmethod(lambda features: np.zeros(4))

    def recommend(self, context: Context) -> Any:
        return self.answer(context.features)


class Moved(Own):
    """Draws where it must only read, and keeps no generator in its state."""

    def recommend(self, context: Context) -> Any:
        return self.rng.uniform(-1.0, 1.0, 4)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda features: 1 / 0, "policy p: row 0: ZeroDivisionError: division by zero"),
        (lambda features: np.zeros(3), r"policy p: row 0: gives array\(\[0., 0., 0.\]\), expected 4 boosts"),
        (lambda features: None, "policy p: row 0: gives None, expected 4 boosts"),
        (lambda features: "high", "policy p: row 0: got 'high', expected a number for each boost"),
    ],
)
def test_what_a_policy_of_ones_own_does_wrong_is_told_in_one_line(answer: Any, words: str) -> None:
    policy = Own(SMALL.spec, np.random.default_rng(0))
    policy.answer = answer
    with pytest.raises(PolicyError, match=words):
        zoosim.evaluate(boost_frame(), {"p": policy}, a_max=2.0)


def test_a_policy_that_draws_while_it_is_judged_is_refused() -> None:
    with pytest.raises(PolicyError, match="policy p: changed its state while it was judged"):
        zoosim.evaluate(boost_frame(), {"p": Moved(SMALL.spec, np.random.default_rng(0))}, a_max=2.0)


def test_a_policy_that_cannot_be_made_for_a_log_is_refused() -> None:
    class Broken(Own):
        def __init__(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("no model")

    with pytest.raises(PolicyError, match="policy own: cannot be made for this log: RuntimeError: no model"):
        zoosim.evaluate(boost_frame(), [Broken], a_max=2.0)


def test_what_has_to_learn_of_boosts_is_sent_to_train() -> None:
    advice = "give a FILE.npz of zoosim.save_policy or a FILE.zoosim of zoosim train$"
    with pytest.raises(PolicyError, match=f"policy item-critic: has learned nothing yet, .*; {advice}"):
        zoosim.evaluate(boost_frame(), ["item-critic"], a_max=2.0)
    with pytest.raises(ConfigError, match=f"train: here policies learn from logs of single actions alone; .*{advice}"):
        zoosim.evaluate(boost_frame(), ["item-critic"], a_max=2.0, train=True)


@pytest.mark.parametrize("kind", [pl.Null, pl.Float64])
def test_actions_without_boosts_are_refused(kind: Any) -> None:
    frame = pl.DataFrame({"propensity": [0.5, 0.5], "reward": [0.0, 1.0]})
    frame = frame.with_columns(action=pl.Series([[], []], dtype=pl.List(kind)))
    with pytest.raises(DataError, match="column action: got empty lists alone, expected a number for each boost"):
        zoosim.evaluate(frame, {"p": np.zeros(0)})


def test_a_bandwidth_that_a_density_does_not_need_is_told() -> None:
    frame = shop(1, 40, 0)[0].with_columns(tilt=0.5)
    assert judged(frame, "column:tilt", bandwidth=0.3).notes["p"] == (
        "judged by its density, which needs no bandwidth",
    )
    assert judged(frame, "column:tilt").notes["p"] == ()


def test_boosts_at_the_edge_may_be_written_in_single_precision() -> None:
    edge = np.float32(0.1)
    rewards = np.arange(40.0)
    frame = pl.DataFrame({"propensity": np.full(40, 5.0), "reward": rewards, "action": np.full((40, 1), 0.1)})
    single = frame.with_columns(action=pl.Series(np.full((40, 1), edge)))
    options: dict[str, Any] = {"a_max": 0.1, "bandwidth": 0.05}
    expected = judged(frame, np.array([0.1]), **options).results
    assert judged(single, np.array([edge]), **options).results == expected
    beyond = frame.with_columns(action=pl.Series(np.full((40, 1), 0.10001)))
    with pytest.raises(DataError, match=r"row 0, column action: .* expected boosts from -0.1 to 0.1 \(a_max\)"):
        judged(beyond, np.array([0.1]), **options)


def test_boosts_that_no_box_holds_are_refused() -> None:
    frame, _ = shop(2, 40, 0)
    for scale, size in ((1e-200, "e-201"), (0.0, "0"), (1e20, r"e\+19")):
        told = pl.Series(scale * frame["action"].to_numpy())
        with pytest.raises(DataError, match=rf"column action: got boosts of [0-9.]*{size} in size at most, expected"):
            judged(frame.with_columns(action=told), np.zeros(2), a_max=None)


def test_a_kernel_wider_than_the_box_weighs_all_boosts_alike() -> None:
    """By Epanechnikov's kernel cut to the box, which is flat from afar: every weight is 1."""
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 2))
    for bandwidth in (1e3, 1e6, 1e9):
        weights = kernel_weights(actions, np.full(50, 0.25), np.full((50, 2), 0.3), bandwidth, -1.0, 1.0)
        assert np.abs(weights - 1.0).max() < 4.0 / bandwidth**2 + 1e-14


def changed(row: int, **values: Any) -> pl.DataFrame:
    frame, _ = shop(2, 40, 0)
    frame = frame.with_columns(pl.col("action").arr.to_list(), decision_id=pl.int_range(40).cast(pl.String))
    here = pl.int_range(pl.len()) == row
    return frame.with_columns(pl.when(here).then(pl.lit(v)).otherwise(pl.col(k)).alias(k) for k, v in values.items())


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (
            lambda: changed(7, propensity=0.0),
            r"row 7, column propensity: got 0\.0, expected a density from 1e-60 to 1e\+60",
        ),
        (lambda: changed(7, propensity=np.inf), "row 7, column propensity: got inf, expected a density"),
        (lambda: changed(7, reward=np.nan), "row 7, column reward: got nan, expected a finite number"),
        (lambda: changed(7, action=[0.5]), r"row 7, column action: got \[0.5\], expected a list of 2 numbers"),
        (lambda: changed(7, action=[0.5, np.nan]), r"row 7, column action: got \[0.5, nan\], expected finite numbers"),
        (lambda: changed(7, action=[0.5, -1.5]), r"row 7, column action: .* expected boosts from -1 to 1 \(a_max\)"),
        (lambda: changed(7, decision_id="3"), "row 7, column decision_id: got '3', expected an id that no earlier"),
    ],
)
def test_bad_rows_are_refused_by_row_and_column(frame: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        judged(frame(), np.zeros(2))
    found = judged(frame(), np.zeros(2), skip_bad=True)
    assert (found.n, sum(found.skipped.values())) == (39, 1)


@pytest.mark.parametrize(
    ("policy", "options", "words"),
    [
        (np.zeros(3), {}, r"policy p: got boosts of shape \(3,\), expected \(2,\) or \(40, 2\)"),
        (np.full(2, 1.2), {}, r"policy p: row 0: gives \[1.2, 1.2\], expected boosts from -1 to 1 \(a_max\)"),
        (np.full(2, np.nan), {}, r"policy p: row 0: gives \[nan, nan\], expected boosts from -1 to 1"),
        ("column:reward", {}, "policy p: row .*: gives a density of -"),
        ("column:density", {}, "column density is no column of numbers; it has action"),
        (np.zeros(2), {"bandwidth": 0.0}, "bandwidth: got 0.0, expected a number above 0 and at most 1e"),
        (np.full(2, 0.999), {"bandwidth": 1e-6}, "policy p: no logged boosts lie within a bandwidth of 1e-06"),
        (np.zeros(2), {"bandwidth": "wide"}, "bandwidth: got 'wide', expected a number above 0"),
        (np.zeros(2), {"a_max": -1.0}, "a_max: got -1.0, expected a number, 1e-09 to 1e"),
        (np.zeros(2), {"a_max": "1"}, "a_max: got '1', expected a number"),
        (["high", "low"], {}, r"policy p: got \['high', 'low'\], expected a policy of boosts, a function, an array"),
        ([[0.1, 0.2], [0.3]], {}, r"policy p: got \[\[0.1, 0.2\], \[0.3\]\], expected a policy of boosts"),
        (lambda log, start, stop: 1 / 0, {}, "policy p: rows 0 to 39: ZeroDivisionError: division by zero"),
        (lambda log, start, stop: "high", {}, "policy p: rows 0 to 39: ValueError: could not convert"),
        ("column:huge", {}, r"policy p: row 0: gives a density of 1e\+300, expected 1e\+60 times the log's, 0.25, at"),
        (np.zeros(2), {"interval": "bernstein"}, "interval: bernstein and sequence bound a policy's value"),
        (np.zeros(2), {"estimators": ["ips"]}, "policy p: none of ips can do with the boosts that a policy without"),
        (np.zeros(2), {"estimators": ["dr"]}, "unknown estimator 'dr'"),
        (np.zeros(2), {"rankings": True}, "column action holds values of type List"),
        ("learned:linear", {}, "is now the policy linear; write --policy linear --train"),
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(policy: Any, options: dict[str, Any], words: str) -> None:
    frame = changed(0).with_columns(reward=pl.col("reward") - 1.0, huge=1e300)
    given = {"a_max": None} if "rankings" in options else {}
    with pytest.raises((ConfigError, DataError, PolicyError), match=words):
        judged(frame, policy, **given, **options)


def test_columns_that_records_use_are_read_as_they_are() -> None:
    """The log's own density as that of a policy: all weights are 1, whatever the density is."""
    frame, _ = shop(2, 40, 0)
    assert {row.max_weight for row in judged(frame, "column:propensity").results} == {1.0}
    with pytest.raises(DataError, match="column action is no column of numbers"):
        judged(frame, "column:action")


def test_boosts_that_lie_across_the_box_weigh_nothing() -> None:
    frame = pl.DataFrame({"action": np.full((40, 1), -1.0), "propensity": np.full(40, 0.5), "reward": np.arange(40.0)})
    found = judged(frame, np.ones(1), estimators=["kernel-ips"])
    assert found.results[0].verdict == "do not use"
    assert "nan" not in " ".join((*found.results[0].reasons, *found.notes["p"]))


def test_what_goes_with_other_logs_is_refused(tmp_path: Path) -> None:
    frame, _ = shop(1, 40, 0)
    lists = frame.with_columns(pl.col("action").arr.to_list(), pl.col("user").arr.to_list())
    lists.write_parquet(tmp_path / "log.parquet")
    for log in (frame, tmp_path / "log.parquet", to_log(frame)):
        with pytest.raises(ConfigError, match="data: goes with a log open-bandit:POLICY/CAMPAIGN alone, got"):
            zoosim.evaluate(log, {"p": np.zeros(1)}, data=tmp_path)
    with pytest.raises(DataError, match=r"none\.parquet: no such file"):
        judged(tmp_path / "none.parquet", np.zeros(1))


def test_options_of_boosts_are_refused_for_single_actions() -> None:
    log = pl.DataFrame({"action": [0, 1], "propensity": [0.5, 0.5], "reward": [0.0, 1.0]})
    with pytest.raises(ConfigError, match="a_max: goes with Records whose actions are lists of numbers"):
        zoosim.evaluate(log, {"p": np.full(2, 0.5)}, a_max=1.0)
    with pytest.raises(ConfigError, match=r"bandwidth: got 0\.5, expected none; it goes with logs of boosts"):
        zoosim.evaluate(log, {"p": np.full(2, 0.5)}, bandwidth=0.5)


def test_boosts_are_judged_on_the_command_line(tmp_path: Path) -> None:
    frame, _ = shop(1, 800, 0)
    tilt = (1.0 + frame["action"].arr.first()) / 2.0
    frame.with_columns(pl.col("action").arr.to_list(), pl.col("user").arr.to_list(), tilt=tilt).write_parquet(
        tmp_path / "log.parquet"
    )
    line = ("evaluate", "log.parquet", "--policy", "column:tilt", "--a-max", "1", "--samples", "500", "--json")
    done = run_zoosim(*line, "--out", "page", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    rows = json.loads(done.out)["results"]
    assert [(row["policy"], row["estimator"], row["verdict"]) for row in rows] == [
        ("tilt", "ips", "trust"),
        ("tilt", "snips", "trust"),
    ]
    (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    done = run_zoosim("evaluate", "log.parquet", "--policy", "column:tilt", "--bandwidth", "0", cwd=tmp_path)
    assert (done.code, done.err.startswith("zoosim: bandwidth: got 0.0")) == (2, True)

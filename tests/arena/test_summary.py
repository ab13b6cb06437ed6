"""Figures of several seeds from trials made by hand: summary.json as documented, the pairs, and the verdict."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.arena.plan import Plan
from zoosim.arena.store import RunFolder, TrialKey
from zoosim.arena.summary import Comparison
from zoosim.core.errors import PolicyFailure
from zoosim.core.statistics import mean_interval, paired_test, paired_tests, seeds_to_settle
from zoosim.core.types import FloatArray
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import RunRequest

STEPS = 3_000
SHOCKS = [
    {"step": 2_000, "name": "late", "set": {"budget_shopper": {"Cat Food": 0.1}}},
    {"step": 1_000, "name": "early", "set": {"budget_shopper": {"Cat Food": 0.9}}},
]
NAMES = ["random", "greedy", "linucb"]
T_TWO_SEEDS = 12.706205


def plan(seeds: int = 3, policies: list[str] = NAMES, shocks: list[dict[str, Any]] = SHOCKS) -> Plan:
    config = {"env": {"n_products": 5, "n_users": 10, "shocks": shocks}}
    return make_plan(RunRequest("gauntlet", seeds, STEPS, policies, config=config))


def put(path: Path, policy: str, seed: int, fraction: float | FloatArray) -> None:
    """Save a trial whose policy earns `fraction` of a best probability of .5 at each visit, clicks at every fourth."""
    true = np.broadcast_to(np.asarray(fraction, float) * 0.5, STEPS)
    columns = {
        "action": np.zeros(STEPS, np.int32),
        "reward": np.resize([1.0, 0.0, 0.0, 0.0], STEPS),
        "true_probability": true,
        "best_probability": np.full(STEPS, 0.5),
    }
    RunFolder(path).write_trial(TrialKey(policy, seed), columns, {})


def compare(path: Path, table: dict[str, list[float]], failures: tuple[PolicyFailure, ...] = ()) -> Comparison:
    """Return the comparison of policies whose fractions of oracle by seed are given."""
    for name, fractions in table.items():
        for seed, fraction in enumerate(fractions):
            put(path, name, seed, fraction)
    return Comparison(plan(max(map(len, table.values())), list(table)), RunFolder(path), failures)


def strict(summary: dict[str, Any]) -> dict[str, Any]:
    """Write as JSON, which has no NaN and no infinity, and read again."""
    found: dict[str, Any] = json.loads(json.dumps(summary, allow_nan=False))
    return found


def keys(interval: dict[str, Any]) -> bool:
    return set(interval) == {"mean", "low", "high"}


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_summary_has_the_documented_shape(seeds: int, tmp_path: Path) -> None:
    table = {name: [0.2 + 0.1 * place + 0.01 * seed**2 for seed in range(seeds)] for place, name in enumerate(NAMES)}
    comparison = compare(tmp_path, table)
    summary = strict(comparison.summary(1.23456))
    assert list(summary) == [
        "schema_version",
        "experiment",
        "config_hash",
        "seeds",
        "steps",
        "wall_seconds",
        "policies",
        "pairs",
    ]
    assert (summary["schema_version"], summary["experiment"], summary["steps"]) == (1, "gauntlet", STEPS)
    assert (summary["config_hash"], summary["wall_seconds"]) == (comparison.plan.config_hash, 1.235)
    assert summary["seeds"] == [*range(seeds)]
    assert list(summary["policies"]) == NAMES
    for figures in summary["policies"].values():
        assert set(figures) == {"ctr", "oracle_fraction", "phases", "recovery_steps", "failed"}
        assert keys(figures["ctr"])
        assert set(figures["oracle_fraction"]) == {"mean", "low", "high", "sd", "min", "per_seed"}
        for phase in figures["phases"]:
            assert set(phase) == {"from", "to", "ctr", "oracle_fraction"}
            assert keys(phase["ctr"])
            assert keys(phase["oracle_fraction"])
        assert list(figures["recovery_steps"]) == ["early", "late"]
        for recovery in figures["recovery_steps"].values():
            assert set(recovery) == {"median", "recovered", "of"}
        assert figures["failed"] == []
    assert all(set(pair) == {"a", "b", "difference", "low", "high", "p"} for pair in summary["pairs"])
    assert len(summary["pairs"]) == 3


def test_one_seed_has_nulls_where_a_spread_would_be(tmp_path: Path) -> None:
    summary = strict(compare(tmp_path, {"random": [0.25], "greedy": [0.75]}).summary(0.0))
    assert summary["policies"]["random"] == {
        "ctr": {"mean": 0.25, "low": None, "high": None},
        "oracle_fraction": {"mean": 0.25, "low": None, "high": None, "sd": None, "min": 0.25, "per_seed": [0.25]},
        "phases": [
            {
                "from": start,
                "to": start + 1_000,
                "ctr": {"mean": 0.25, "low": None, "high": None},
                "oracle_fraction": {"mean": 0.25, "low": None, "high": None},
            }
            for start in (0, 1_000, 2_000)
        ],
        "recovery_steps": {name: {"median": None, "recovered": 0, "of": 1} for name in ("early", "late")},
        "failed": [],
    }
    assert summary["pairs"] == [{"a": "greedy", "b": "random", "difference": 0.5, "low": None, "high": None, "p": None}]


def test_figures_over_seeds(tmp_path: Path) -> None:
    """Fractions .3, .5 and .4: mean .4, sd .1, the worst .3, and the interval of the t distribution."""
    fraction = compare(tmp_path, {"greedy": [0.3, 0.5, 0.4]}).summary(0.0)["policies"]["greedy"]["oracle_fraction"]
    expected = mean_interval([0.3, 0.5, 0.4])
    assert [fraction[key] for key in ("mean", "low", "high")] == pytest.approx(list(expected))
    assert (fraction["sd"], fraction["min"]) == (pytest.approx(0.1), pytest.approx(0.3))
    assert fraction["per_seed"] == pytest.approx([0.3, 0.5, 0.4])


def test_phases_end_before_the_shock(tmp_path: Path) -> None:
    """The policy is good until visit 999, fair until 1,999, bad from 2,000 on: each phase has one of these alone."""
    put(tmp_path, "greedy", 0, np.repeat([0.75, 0.5, 0.25], 1_000))
    figures = Comparison(plan(1, ["greedy"]), RunFolder(tmp_path)).summary(0.0)["policies"]["greedy"]
    assert [(phase["from"], phase["to"]) for phase in figures["phases"]] == [(0, 1_000), (1_000, 2_000), (2_000, 3_000)]
    assert [phase["oracle_fraction"]["mean"] for phase in figures["phases"]] == [0.75, 0.5, 0.25]
    assert figures["oracle_fraction"]["mean"] == 0.5


def test_labelled_tables_set_their_tail_apart(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("x,label\n" + "\n".join(f"{i},{'ab'[i % 2]}" for i in range(20)))
    plan = make_plan(RunRequest("labelled", 1, policies=["random"], settings=[f"env.data='{table}'"]))
    assert plan.phases == ((0, 16), (16, 20))


def recoveries(path: Path, starts: list[int | None]) -> dict[str, Any]:
    """Return the recovery after the early shock of seeds that are perfect again from such a visit after it on."""
    for seed, start in enumerate(starts):
        steps = np.arange(STEPS)
        bad = (steps >= 1_000) & (steps < (2_000 if start is None else 1_000 + start))
        put(path, "greedy", seed, np.where(bad, 0.0, 1.0))
    figures = Comparison(plan(len(starts), ["greedy"]), RunFolder(path)).summary(0.0)["policies"]["greedy"]
    assert figures["recovery_steps"]["late"] == {"median": 0.0, "recovered": len(starts), "of": len(starts)}
    found: dict[str, Any] = strict(figures)["recovery_steps"]["early"]
    return found


@pytest.mark.parametrize(
    ("starts", "median", "recovered"),
    [
        ([225], 200.0, 1),  # the window may begin with 25 bad visits: 500 x 5%
        ([125, 325], 200.0, 2),
        ([125, 225, None], 200.0, 2),
        ([125, 225, 325, None], 250.0, 3),
        ([125, 225, None, None], None, 2),  # half of them never: the two in the middle are 200 and infinity
        ([125, None], None, 1),
        ([125, None, None], None, 1),
        ([None], None, 0),
    ],
)
def test_a_median_recovery_with_half_never_is_never(
    starts: list[int | None], median: float | None, recovered: int, tmp_path: Path
) -> None:
    assert recoveries(tmp_path, starts) == {"median": median, "recovered": recovered, "of": len(starts)}


def test_pairs_are_a_minus_b_with_the_better_first(tmp_path: Path) -> None:
    table = {"random": [0.2, 0.25, 0.3, 0.2], "greedy": [0.5, 0.6, 0.5, 0.4], "linucb": [0.5, 0.5, 0.6, 0.5]}
    pairs = compare(tmp_path, table).pairs
    assert [(pair["a"], pair["b"]) for pair in pairs] == [
        ("linucb", "greedy"),
        ("linucb", "random"),
        ("greedy", "random"),
    ]
    tests = paired_tests([(np.array(table[pair["a"]]), np.array(table[pair["b"]])) for pair in pairs])
    for pair, test in zip(pairs, tests, strict=True):
        assert [pair[key] for key in ("difference", "low", "high", "p")] == pytest.approx(list(test))
    assert pairs[0]["difference"] > 0


def test_no_interval_reaches_beyond_what_is_possible(tmp_path: Path) -> None:
    """Two seeds apart give t intervals of several times 100%: of fractions, of their differences, and of curves."""
    comparison = compare(tmp_path, {"greedy": [0.9, 1.0], "random": [0.0, 0.2]})
    summary = comparison.summary(0.0)
    ends = [
        (summary["policies"][name]["oracle_fraction"][key]) for name in ("greedy", "random") for key in ("low", "high")
    ]
    assert ends == pytest.approx([0.95 - T_TWO_SEEDS * 0.05, 1.0, 0.0, 1.0])
    phases = [phase["oracle_fraction"] for figures in summary["policies"].values() for phase in figures["phases"]]
    assert all(0.0 <= phase["low"] <= phase["mean"] <= phase["high"] <= 1.0 for phase in phases)
    assert [summary["pairs"][0][key] for key in ("low", "high")] == pytest.approx([0.85 - T_TWO_SEEDS * 0.05, 1.0])
    for curves in comparison.curves().values():
        assert curves["share"][2].max() <= 1.0
        assert (curves["regret"][2] <= comparison.at).all()


def test_pairs_take_the_seeds_that_both_finished(tmp_path: Path) -> None:
    """Seed by seed: greedy's good seed 3 has no counterpart, and does not count."""
    put(tmp_path, "greedy", 3, 1.0)
    comparison = compare(tmp_path, {"greedy": [0.5, 0.6], "random": [0.25, 0.3]})
    pair = comparison.pairs[0]
    assert (pair["a"], pair["b"]) == ("greedy", "random")
    assert pair["difference"] == pytest.approx(0.275)
    assert comparison.summary(0.0)["seeds"] == [0, 1, 3]


def failed(name: str, seed: int) -> PolicyFailure:
    return PolicyFailure(name, seed, 17, "ValueError: no", "mine.py:3")


def test_failures_stand_beside_their_policy(tmp_path: Path) -> None:
    """A policy that failed on every seed has empty figures; one that failed on some keeps the others'."""
    gone = (failed("greedy", 0), failed("greedy", 1), failed("linucb", 1))
    table = {"random": [0.25, 0.35], "linucb": [0.5]}
    for name, fractions in table.items():
        for seed, fraction in enumerate(fractions):
            put(tmp_path, name, seed, fraction)
    comparison = Comparison(plan(2), RunFolder(tmp_path), gone)
    policies = strict(comparison.summary(0.0))["policies"]
    item = {"step": 17, "place": "mine.py:3", "error": "ValueError: no"}
    assert policies["greedy"]["failed"] == [{"seed": 0, **item}, {"seed": 1, **item}]
    assert policies["linucb"]["failed"] == [{"seed": 1, **item}]
    assert policies["random"]["failed"] == []
    assert policies["greedy"]["oracle_fraction"]["mean"] is None
    assert policies["greedy"]["phases"] == []
    assert policies["linucb"]["oracle_fraction"]["mean"] == 0.5
    assert comparison.ranked == ["linucb", "random"]
    assert [(pair["a"], pair["b"], pair["p"]) for pair in comparison.pairs] == [("linucb", "random", None)]


def test_a_clear_lead_wins(tmp_path: Path) -> None:
    """70 against 50%: differences .2, .21, .19, .2 have an interval of 18.7 to 21.3 points and a p far below .05."""
    comparison = compare(tmp_path, {"random": [0.5, 0.5, 0.5, 0.5], "greedy": [0.7, 0.71, 0.69, 0.7]})
    verdict = comparison.verdict()
    assert verdict.startswith("greedy wins: 70.0% of oracle over 4 seeds, ahead of random by 20.0 points")
    assert "95% interval 18.7 to 21.3" in verdict
    assert "below .001" in verdict


def test_an_unclear_lead_says_how_many_seeds_would_settle_it(tmp_path: Path) -> None:
    table = {"greedy": [0.5, 0.6, 0.5, 0.6], "linucb": [0.6, 0.55, 0.45, 0.7], "random": [0.2, 0.2, 0.2, 0.25]}
    comparison = compare(tmp_path, table)
    pair = comparison.pairs[0]
    assert (pair["a"], pair["b"]) == ("linucb", "greedy")
    assert pair["p"] > 0.05
    needed = seeds_to_settle(np.array(table["linucb"]) - np.array(table["greedy"]), 3)
    verdict = comparison.verdict()
    assert verdict.startswith("No clear winner: linucb (57.5% of oracle) leads greedy by 2.5 points")
    assert f"about {needed:,} seeds would settle it" in verdict


def test_a_lead_that_one_test_would_show_must_stand_against_all(tmp_path: Path) -> None:
    """Differences .01 .03 .01 .03: t = .02 / (.011547 / 2) = 3.464, p = .0405 alone, but no win among three pairs."""
    table = {"greedy": [0.5, 0.5, 0.5, 0.5], "linucb": [0.51, 0.53, 0.51, 0.53], "random": [0.5, 0.49, 0.51, 0.49]}
    alone = compare(tmp_path / "two", {name: table[name] for name in ("greedy", "linucb")})
    assert alone.pairs[0]["p"] == pytest.approx(0.0405, abs=1e-4)
    assert alone.verdict().startswith("linucb wins: 52.0% of oracle over 4 seeds, ahead of greedy by 2.0 points")
    assert compare(tmp_path / "three", table).verdict().startswith("No clear winner: linucb (52.0% of oracle)")


def test_equal_policies_have_no_winner(tmp_path: Path) -> None:
    verdict = compare(tmp_path, {"greedy": [0.5, 0.6], "linucb": [0.5, 0.6]}).verdict()
    assert verdict.startswith("No clear winner: ")
    assert "equal" in verdict


def test_a_single_seed_settles_nothing(tmp_path: Path) -> None:
    verdict = compare(tmp_path, {"greedy": [0.5], "random": [0.2]}).verdict()
    assert verdict.startswith("greedy leads with 50.0% of oracle, but one seed settles nothing")


def test_a_verdict_needs_two_who_finished(tmp_path: Path) -> None:
    assert compare(tmp_path, {"greedy": [0.5, 0.6]}).verdict().startswith("greedy earns 55.0% of the oracle's clicks")
    nobody = Comparison(plan(1, ["random"]), RunFolder(tmp_path / "none"), (failed("random", 0),))
    assert nobody.verdict().startswith("No verdict: no policy finished")
    assert strict(nobody.summary(0.0))["pairs"] == []


def test_policies_that_met_different_visitors_have_no_winner(tmp_path: Path) -> None:
    for name, seed, fraction in [("random", 0, 0.2), ("greedy", 0, 0.5), ("linucb", 1, 0.6)]:
        put(tmp_path, name, seed, fraction)
    comparison = Comparison(plan(2), RunFolder(tmp_path))
    assert comparison.verdict().startswith("No verdict: linucb and greedy met different visitors")
    assert [(pair["a"], pair["b"]) for pair in comparison.pairs] == [("greedy", "random")]


def test_curves_are_means_with_a_band_over_seeds(tmp_path: Path) -> None:
    """Regret grows by .5 (1 - fraction) a visit: with .6, .61 and .62 by .2, .195 and .19, the mean by .195."""
    comparison = compare(tmp_path, {"greedy": [0.6, 0.61, 0.62]})
    mean, low, high = comparison.curves()["greedy"]["regret"]
    np.testing.assert_allclose(mean, 0.195 * np.asarray(comparison.at))
    end = mean_interval([0.2 * STEPS, 0.195 * STEPS, 0.19 * STEPS])
    assert (mean[-1], low[-1], high[-1]) == pytest.approx(end)
    one = compare(tmp_path / "one", {"greedy": [0.6]}).curves()["greedy"]["regret"]
    assert all(np.array_equal(line, one[0]) for line in one)


def test_a_search_shop_is_summed_up_by_what_visits_earned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoosim.worlds.search.template_arms.TRUTH_VISITS", 300)
    settings = ["env.n_products=60", "env.n_users=40", "env.floors.cm2=0.5", "env.floors.strategic=0.2"]
    names = ["template-neutral", "template-strategic"]
    result = zoosim.run(
        "template-bandits", policies=names, seeds=[5, 6], steps=120, settings=settings, jobs=1, out=tmp_path / "run"
    )
    rows = result.rows
    for name in names:
        figures, own = result.summary["policies"][name], rows.filter(pl.col("policy") == name)
        assert "ctr" not in figures
        for key, column in (("reward", "reward"), ("gmv", "gmv"), ("cm2", "cm2"), ("rank_change", "rank_change")):
            assert figures[key]["mean"] == pytest.approx(own[column].mean())
        sums = own.group_by("seed").agg(pl.col("strategic", "purchases").sum())
        shares = (sums["strategic"] / sums["purchases"]).to_numpy()
        assert figures["strategic_share"]["mean"] == pytest.approx(np.mean(shares))
        assert figures["below_cm2_floor"]["mean"] == pytest.approx((own["cm2"] < 0.5).mean())
        assert figures["below_strategic_floor"]["mean"] == pytest.approx((own["exposure"] < 0.2).mean())
        assert [(phase["from"], phase["to"]) for phase in figures["phases"]] == [(0, 90), (90, 120)]
        premium = own.filter(pl.col("segment") // 3 == 2).group_by("seed").agg(pl.col("reward").mean())
        assert figures["segments"]["premium"]["reward"]["mean"] == pytest.approx(premium["reward"].mean())
    assert result.summary["policies"]["template-strategic"]["strategic_share"]["mean"] > 0.5
    assert result.summary["policies"]["template-neutral"]["rank_change"]["mean"] == 0.0
    weighed = rows["gmv"] + 0.4 * rows["cm2"] + 2.0 * rows["strategic"] + 0.1 * rows["clicks"]
    np.testing.assert_allclose(rows["reward"], weighed)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "What visits earned" in page
    assert "Reward by segment" in page
    again = zoosim.read_run(tmp_path / "run")
    assert again.summary["policies"] == result.summary["policies"]


def test_learners_are_compared_by_what_they_see(tmp_path: Path) -> None:
    """Rich gains .02, .01 and .03 on simple over three seeds; what has no partner has no gain."""
    table = {
        "template-ts-simple": [0.9, 0.8, 0.7],
        "template-ts-rich": [0.92, 0.81, 0.73],
        "template-linucb-rich": [0.5],
    }
    for name, fractions in table.items():
        for seed, fraction in enumerate(fractions):
            put(tmp_path, name, seed, fraction)
            file = tmp_path / "cells" / name / f"{seed}.parquet"
            parts = ("gmv", "cm2", "strategic", "clicks", "rank_change", "purchases", "exposure", "segment")
            pl.read_parquet(file).with_columns(pl.lit(0.0).alias(part) for part in parts).write_parquet(file)
    search = make_plan(RunRequest("template-bandits", 3, STEPS, list(table), settings=["env.n_products=5"]))
    comparison = Comparison(search, RunFolder(tmp_path))
    summary = strict(comparison.summary(1.0))
    rows = {row["policy"]: row for row in summary["features"]}
    rich, expected = rows["template-ts-rich"], paired_test(table["template-ts-rich"], table["template-ts-simple"])
    assert (rich["learner"], rich["features"]) == ("Thompson sampling", "rich")
    assert (rich["difference"], rich["low"], rich["high"], rich["p"]) == pytest.approx(tuple(expected))
    assert rich["end"]["mean"] == pytest.approx(0.82)
    for name in ("template-ts-simple", "template-linucb-rich"):
        assert rows[name]["difference"] is None
    assert "features" not in compare(tmp_path / "other", {"greedy": [0.6]}).summary(1.0)


def test_a_run_on_own_tables_is_read_again_wherever_they_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoosim.worlds.search.template_arms.TRUTH_VISITS", 300)
    monkeypatch.chdir(tmp_path)
    kinds = ["dog_food", "cat_food", "litter", "toys"]
    frame = pl.DataFrame({"id": range(40), "category": kinds * 10, "price": 12.0, "cm2": 1.0})
    frame.write_csv("shop.csv")
    asked: dict[str, Any] = {"policies": ["template-neutral"], "seeds": 1, "steps": 60, "jobs": 1, "out": "run"}
    first = zoosim.run("template-bandits", settings=["env.catalogue_file=shop.csv"], **asked)
    (tmp_path / "elsewhere").mkdir()
    Path("shop.csv").rename("elsewhere/shop.csv")
    assert zoosim.read_run("run").summary["policies"] == first.summary["policies"]
    again = zoosim.run("template-bandits", settings=["env.catalogue_file=elsewhere/shop.csv"], **asked)
    assert again.plan.config_hash == first.plan.config_hash


def test_records_of_a_search_shop_hold_what_rewards_are_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoosim.worlds.search.template_arms.TRUTH_VISITS", 300)
    settings = ["env.n_products=60", "env.n_users=40", "env.categories.dog_food.log_price_mean=6"]
    zoosim.run(
        "template-bandits", policies=["template-premium"], seeds=1, steps=200, settings=settings, jobs=1,
        out=tmp_path / "run", log=True,
    )  # fmt: skip
    log = pl.read_parquet(tmp_path / "run" / "log" / "template-premium" / "0.parquet")
    parts = log["gmv"] + 0.4 * log["cm2"] + 2.0 * log["strategic"] + 0.1 * log["click"]
    np.testing.assert_allclose(log["reward"], parts)
    assert np.max(log["reward"].to_numpy()) > 128


class First(zoosim.Policy):
    """Show the first product."""

    def select_action(self, context: zoosim.Context) -> int:
        """Return 0."""
        return 0

    def update(self, context: zoosim.Context, action: int, reward: float, *_: object) -> None:
        """Learn nothing."""


def test_a_class_of_the_users_own_competes_in_drawn_shops(tmp_path: Path) -> None:
    result = zoosim.run("shops", policies=[First], seeds=1, steps=100, jobs=1, out=tmp_path / "run")
    assert result.policies["policy"].to_list() == ["first"]


OWN_WORLD = f"{Path(zoosim.__file__).parents[1] / 'examples' / 'my_world.py'}:Bookshop"


@pytest.mark.parametrize("world", ["template-bandits", OWN_WORLD])
def test_a_class_without_a_file_competes_where_policies_may_choose_boosts(world: str, tmp_path: Path) -> None:
    """The summary cannot find it by what config.yaml says, and need not."""
    result = zoosim.run(world, policies=["random", First], seeds=2, steps=100, jobs=1, out=tmp_path / "run")
    assert set(result.policies["policy"]) == {"random", "first"}
    assert set(zoosim.read_run(tmp_path / "run").policies["policy"]) == {"random", "first"}

"""The Python calls: run with a class, keep a folder, read it again, write a log."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim import Context, Policy, RunResult, ZoosimError
from zoosim.api.runs import DEFAULT_OUT, write_log
from zoosim.core.errors import ConfigError, PolicyFailure

ROOT = Path(__file__).parents[2]
STEPS = 800
SHOP: dict[str, Any] = {
    "n_products": 6,
    "n_users": 20,
    "shocks": [{"step": 300, "name": "fish", "set": {"budget_shopper": {"Fish Supplies": 0.9}}}],
}


class First(Policy):
    def select_action(self, context: Context) -> int:
        return int(np.argmax(context.available))

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Any = None,
    ) -> None:
        pass


class Broken(First):
    def select_action(self, context: Context) -> int:
        raise ValueError("no idea")


def run(**changes: Any) -> RunResult:
    given = {"policies": ["random", "greedy"], "seeds": 2, "steps": STEPS, "config": {"env": SHOP}, "jobs": 1}
    return zoosim.run("gauntlet", **{**given, **changes})


def names(path: Path) -> set[str]:
    return {item.name for item in path.iterdir()}


def test_a_class_of_a_test_competes(tmp_path: Path) -> None:
    class Last(First):
        """Defined in a function, so that no other process could find it by name."""

        def select_action(self, context: Context) -> int:
            return int(np.flatnonzero(context.available)[-1])

    result = run(policies=["random", First], extra=[Last], out=tmp_path, csv=True, jobs=2)
    assert result.failures == ()
    assert set(result.rows.filter(policy="first")["action"]) == {0}
    assert set(result.rows["policy"]) == {"first", "last", "random"}
    both = run(policies=[First, Last], out=tmp_path)
    assert set(both.rows.filter(policy="last")["action"]) == {5}
    assert set(both.rows["policy"]) == {"first", "last", "random"}


def test_a_plain_class_competes(tmp_path: Path) -> None:
    """No base class: two methods are enough."""

    class JustTwo:
        def __init__(self, spec: Any, rng: Any) -> None:
            self.clicks = np.zeros(1_000)

        def select_action(self, context: Any) -> int:
            return int(np.argmax(np.where(context.available, self.clicks[context.product_ids], -1)))

        def update(self, context: Any, action: int, reward: float) -> None:
            self.clicks[context.product_ids[action]] += reward

    result = run(policies=[JustTwo], out=tmp_path)
    assert result.failures == ()
    assert result.verdict.startswith("just-two earns ")


def test_a_folder_holds_the_documented_files(tmp_path: Path) -> None:
    result = run(out=tmp_path, csv=True, log=True)
    expected = {
        "config.yaml",
        "cells",
        "rows.parquet",
        "rows.csv",
        "summary.json",
        "report.html",
        "log",
        "manifest.jsonl",
    }
    assert names(tmp_path) == expected
    assert result.path == tmp_path
    assert json.loads((tmp_path / "summary.json").read_text()) == result.summary
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == result.page()
    assert pl.read_csv(tmp_path / "rows.csv", schema=result.rows.schema).equals(result.rows)
    assert f"--config {tmp_path / 'config.yaml'}" in result.command


def test_frames_hold_the_figures_of_the_summary(tmp_path: Path) -> None:
    result = run(policies=["random", "greedy", "linucb"], out=tmp_path)
    assert result.policies["oracle_fraction"].is_sorted(descending=True)
    assert result.policies.columns == ["policy", "oracle_fraction", "low", "high", "sd", "min", "ctr"]
    for row in result.policies.iter_rows(named=True):
        figures = result.summary["policies"][row["policy"]]
        assert row["oracle_fraction"] == figures["oracle_fraction"]["mean"]
        assert row["ctr"] == figures["ctr"]["mean"]
        mine = result.rows.filter(policy=row["policy"])
        assert row["ctr"] == pytest.approx(mine["reward"].mean())
        sums = mine.group_by("seed", maintain_order=True).agg(pl.col("true_probability", "best_probability").sum())
        fractions = (sums["true_probability"] / sums["best_probability"]).to_list()
        assert figures["oracle_fraction"]["per_seed"] == pytest.approx(fractions)
    assert result.pairs.to_dicts() == result.summary["pairs"]
    assert len(result.pairs) == 3
    assert result.references == ()
    assert result.verdict in result._repr_html_()


def test_without_a_folder_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run()
    assert len(result.rows) == 4 * STEPS
    assert names(tmp_path) == set()
    assert result.temporary is not None
    result.temporary.cleanup()
    assert not result.path.exists()
    assert len(result.rows) == 4 * STEPS


def test_the_default_folder_is_named_by_experiment_and_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another seed joins it, another world gets its own."""
    monkeypatch.chdir(tmp_path)
    assert DEFAULT_OUT == "runs/{experiment}-{hash}"
    one = run(out=DEFAULT_OUT, seeds=1)
    assert one.path == Path(f"runs/gauntlet-{one.summary['config_hash'][:8]}")
    two = run(out=DEFAULT_OUT, seeds=2)
    assert two.path == one.path
    other = run(out=DEFAULT_OUT, seeds=1, settings=["env.n_users=21"])
    assert names(tmp_path / "runs") == {one.path.name, other.path.name}
    assert one.path.name != other.path.name


def test_a_folder_used_again_computes_what_is_new_and_covers_all(tmp_path: Path) -> None:
    left: list[int] = []
    trials: set[Any] = set()

    def again(**changes: Any) -> RunResult:
        trials.clear()
        started = {"started": lambda plan, trials, jobs: left.append(plan.steps * len(trials))}
        return run(out=tmp_path, report=lambda key, *_: trials.add(key), **started, **changes)

    first = again(seeds=1)
    same = again(seeds=1)
    assert (left, trials) == ([2 * STEPS, 0], set())
    assert same.rows.equals(first.rows)
    joined = again(policies=["linucb"], seeds=[5])
    assert (left[-1], trials) == (STEPS, {("linucb", 5)})
    assert joined.summary["seeds"] == [0, 5]
    assert set(joined.summary["policies"]) == {"random", "greedy", "linucb"}
    assert joined.rows.filter(seed=0).equals(first.rows)


def test_a_run_repeats_and_its_configuration_makes_it_again(tmp_path: Path) -> None:
    one = run(out=tmp_path / "one", settings=["policies.greedy.epsilon=0.2"])
    two = zoosim.run("gauntlet", config=tmp_path / "one" / "config.yaml", jobs=1, out=tmp_path / "two")
    assert two.rows.equals(one.rows)
    assert (tmp_path / "two" / "config.yaml").read_text() == (tmp_path / "one" / "config.yaml").read_text()
    differing = {"wall_seconds"}
    assert {k: v for k, v in two.summary.items() if k not in differing} == {
        k: v for k, v in one.summary.items() if k not in differing
    }


def test_a_run_can_be_read_again(tmp_path: Path) -> None:
    """With its failures, and with what was deleted made anew."""
    old = run(policies=["random", "greedy", Broken], out=tmp_path)
    for name in ("report.html", "rows.parquet"):
        (tmp_path / name).unlink()
    again = zoosim.read_run(tmp_path)
    assert again.summary == old.summary
    assert again.verdict == old.verdict
    assert again.rows.equals(old.rows)
    assert [str(failure) for failure in again.failures] == [str(failure) for failure in old.failures]
    assert [(failure.policy, failure.seed) for failure in again.failures] == [("broken", 0), ("broken", 1)]
    assert (tmp_path / "report.html").exists()


def test_a_damaged_run_is_refused_in_one_line(tmp_path: Path) -> None:
    run(out=tmp_path)
    before = (tmp_path / "summary.json").read_bytes()
    for name in ("cells/greedy/1.parquet", "summary.json", "config.yaml"):
        path = tmp_path / name
        content = path.read_bytes()
        path.write_bytes(content.replace(b"greedy", b"greeny"))
        with pytest.raises(ZoosimError, match=f"^{path} is damaged or was changed; delete .*$"):
            zoosim.read_run(tmp_path)
        path.write_bytes(content)
    assert (tmp_path / "summary.json").read_bytes() == before


def test_a_table_for_other_programs_stays_in_step(tmp_path: Path) -> None:
    run(out=tmp_path, seeds=1, csv=True)
    zoosim.read_run(tmp_path)
    assert pl.read_csv(tmp_path / "rows.csv").height == 2 * STEPS
    run(out=tmp_path, seeds=2)
    assert pl.read_csv(tmp_path / "rows.csv").height == 4 * STEPS


def test_a_page_of_a_world_leaves_a_run_usable(tmp_path: Path) -> None:
    first = run(out=tmp_path)
    zoosim.describe("recommendation", out=tmp_path)
    assert (tmp_path / "recommendation.html").exists()
    assert zoosim.read_run(tmp_path).summary == first.summary
    assert run(out=tmp_path).rows.equals(first.rows)


def test_the_command_on_the_page_is_quoted_for_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "a; rm -rf $HOME"
    assert run(out=out, seeds=1).command == f"zoosim run gauntlet --config '{out}/config.yaml'"


def test_a_run_with_parameters_of_policies_that_did_not_compete_can_be_read_again(tmp_path: Path) -> None:
    old = run(policies=["random"], out=tmp_path, settings=["policies.linucb.alpha=0.7"])
    assert zoosim.read_run(tmp_path).summary["config_hash"] == old.plan.config_hash


def test_what_is_no_run_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path, told in [
        (tmp_path / "none", "is not a folder; give the folder of a run"),
        (tmp_path / "file", "is not a folder; give the folder of a run"),
        (tmp_path, "holds "),
    ]:
        with pytest.raises(ConfigError, match=told):
            zoosim.read_run(path)
    assert names(tmp_path) == {"file"}


def test_failures_are_kept_and_others_finish(tmp_path: Path) -> None:
    result = run(policies=["random", Broken], out=tmp_path)
    assert [(f.policy, f.seed, f.step, f.reason) for f in result.failures] == [
        ("broken", seed, 0, "ValueError: no idea") for seed in (0, 1)
    ]
    assert [item["seed"] for item in result.summary["policies"]["broken"]["failed"]] == [0, 1]
    assert result.policies["policy"].to_list() == ["random"]
    assert "broken" in result.page()
    other = run(policies=["greedy"], out=tmp_path)
    assert [item["seed"] for item in other.summary["policies"]["broken"]["failed"]] == [0, 1]


def test_where_nobody_finishes_there_is_still_a_result(tmp_path: Path) -> None:
    result = run(policies=[Broken], out=tmp_path)
    assert result.verdict.startswith("No verdict: no policy finished")
    assert len(result.failures) == 2
    assert len(result.policies) == len(result.pairs) == 0
    assert zoosim.read_run(tmp_path).verdict == result.verdict


@pytest.mark.parametrize("jobs", [0, -1, 1025, 1.0, True, "2"])
def test_jobs_are_a_number_of_processes(jobs: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"jobs: got {jobs!r}, expected a whole number, 1 to 1,024")):
        run(jobs=jobs, out=tmp_path / "run")
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    "changes",
    [
        {"policies": ["linucbb"]},
        {"policies": []},
        {"seeds": 0},
        {"steps": 0},
        {"config": {"env": {"n_products": 0}}},
        {"settings": ["env.n_products"]},
    ],
)
def test_bad_input_is_refused_before_anything_is_written(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ZoosimError):
        run(out=tmp_path / "run", **changes)
    with pytest.raises(ZoosimError, match="unknown experiment 'gauntle'"):
        zoosim.run("gauntle", out=tmp_path / "run")
    assert names(tmp_path) == set()


SCRIPT = f"""
import zoosim

print("top level")


class Mine:
    def __init__(self, spec, rng):
        pass

    def select_action(self, context):
        return int(context.available.argmax())

    def update(self, context, action, reward):
        pass


shop = {SHOP!r}
policies = ["random", "greedy", Mine]
result = zoosim.run("gauntlet", policies=policies, seeds=2, steps={STEPS}, config={{"env": shop}}, jobs=2)
assert not result.failures
assert len(result.rows) == 6 * {STEPS}
print(result.rows["action"].sum(), __file__)
"""


def test_a_script_without_a_main_guard_may_use_several_processes(tmp_path: Path) -> None:
    """Its top level runs once, `__file__` is there afterwards, and the rows are those of one process."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = run(policies=["random", "greedy"], out=tmp_path / "run").rows["action"].sum()  # `Mine` shows product 0
    assert done.stdout.splitlines() == ["top level", f"{expected} {script}"]
    assert names(tmp_path) == {"script.py", "run"}


def test_a_log_is_what_a_shop_would_keep(tmp_path: Path) -> None:
    """The gauntlet's world without its shocks; the mean reward comes back."""
    shop = {key: value for key, value in SHOP.items() if key != "shocks"}
    written = write_log(tmp_path / "deep" / "log.parquet", n=1_200, seed=3, config={"env": shop})
    log = pl.read_parquet(tmp_path / "deep" / "log.parquet")
    assert len(log) == 1_200
    assert log["reward"].mean() == pytest.approx(written.mean_reward)
    assert set(log["seed"]) == {3}
    assert set(log["policy"]) == {"random"}
    assert len(names(tmp_path / "deep")) == 2


def test_a_log_of_ones_own_policy_is_the_runs(tmp_path: Path) -> None:
    write_log(tmp_path / "log.parquet", n=STEPS, policy=First, seed=1, config={"env": SHOP})
    result = run(policies=[First], out=tmp_path / "run", log=True)
    one = pl.read_parquet(tmp_path / "log.parquet")
    two = pl.read_parquet(result.path / "log" / "first" / "1.parquet")
    assert one.equals(two)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("log.csv", {}),
        ("log", {}),
        (".", {}),
        ("file/log.parquet", {}),
        ("log.parquet", {"policy": "randm"}),
        ("log.parquet", {"n": 0}),
        ("log.parquet", {"seed": -1}),
        ("log.parquet", {"config": {"env": {"n_users": 0}}}),
    ],
)
def test_a_log_that_cannot_be_is_refused(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError) as caught:
        write_log(tmp_path / name, **{"n": 10, "config": {"env": SHOP}, **changes})
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == {"file"}


def test_a_policy_that_fails_in_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyFailure, match=r"policy broken failed, seed 4, step 0 at test_runs\.py:"):
        write_log(tmp_path / "log.parquet", n=STEPS, policy=Broken, seed=4, config={"env": SHOP})
    assert names(tmp_path) == set()

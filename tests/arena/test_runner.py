"""Running a plan: the same rows on any number of processes, and every finished trial stands."""

import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from zoosim import Context, Policy, PolicySpec
from zoosim.arena.backends.local import Local
from zoosim.arena.plan import Plan
from zoosim.arena.runner import RunOutcome, missing_trials, run_plan
from zoosim.arena.store import RunFolder, TrialKey
from zoosim.core.errors import ConfigError
from zoosim.core.parquet import read_meta
from zoosim.experiments.plan import finished_plan, make_plan
from zoosim.experiments.request import RunRequest
from zoosim.policies.products.shared_linear import Greedy
from zoosim.policies.registry import make_entry

STEPS = 1_300
SHOP: dict[str, Any] = {
    "n_products": 8,
    "n_users": 30,
    "shocks": [{"step": 700, "name": "fish", "set": {"budget_shopper": {"Fish Supplies": 0.9}}}],
    "availability": [{"step": 300, "change": "run-out", "products": [0, 1], "until": 900}],
}


class First(Policy):
    """Shows the first product that may be shown. At module level, so that other processes find it."""

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


class Patient(First):
    """Sleeps at its visit 1,100 as long as the environment says, to be interrupted there."""

    visits = 0

    def select_action(self, context: Context) -> int:
        self.visits += 1
        if self.visits == 1_100:
            time.sleep(float(os.environ.get("TEST_PATIENCE", "0")))
        return super().select_action(context)


class Failing(First):
    """Fails under the second seed alone, at visit 5."""

    visits = 0

    def select_action(self, context: Context) -> int:
        self.visits += 1
        if self.visits == 6 and self.rng.bit_generator.seed_seq.entropy == 1:  # type: ignore[attr-defined]
            raise ValueError("out of\nideas")
        return super().select_action(context)


class Worried(First):
    """Warns of its visits at two places, of one in other words under each seed."""

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Any = None,
    ) -> None:
        warnings.warn(f"user {context.user_id}\nis odd", RuntimeWarning, stacklevel=1)
        np.log(np.zeros(1))


class Compiled(Greedy):
    name = "mine"


class Plain:
    """The same as `Compiled`, as the plainest class that will do: the loop must ask it."""

    name = "mine"

    def __init__(self, spec: PolicySpec, rng: np.random.Generator) -> None:
        self.inner = Greedy(spec, rng)

    def select_action(self, context: Context) -> int:
        return self.inner.select_action(context)

    def update(self, context: Context, action: int, reward: float) -> None:
        self.inner.update(context, action, reward)


class Meter:
    """Counts the visits of each trial that a run computes, and stops it after so many in all, where asked to."""

    def __init__(self, stop_after: float = np.inf) -> None:
        self.visits: dict[TrialKey, int] = {}
        self.stop_after = stop_after

    def __call__(self, key: TrialKey, visits: int, line: str) -> None:
        self.visits[key] = self.visits.get(key, 0) + visits
        if sum(self.visits.values()) > self.stop_after:
            raise KeyboardInterrupt


def plan(policies: list[Any], seeds: int = 2, config: dict[str, Any] | None = None) -> Plan:
    return make_plan(RunRequest("gauntlet", seeds, STEPS, policies, config={"env": SHOP, **(config or {})}))


def execute(wanted: Plan, path: Path, jobs: int = 1, meter: Meter | None = None, log: bool = False) -> RunOutcome:
    kept = path / "config.yaml"
    held = finished_plan(RunFolder(path).read_config()) if kept.exists() else None
    return run_plan(wanted, path, backend=Local(jobs), keep_log=log, report=meter or Meter(), held=held)


def rows(path: Path) -> pl.DataFrame:
    folder = RunFolder(path)
    folder.write_rows(folder.trials())
    return pl.read_parquet(path / "rows.parquet")


def times(path: Path) -> dict[str, int]:
    """Tell when each trial was written."""
    return {str(item.relative_to(path)): item.stat().st_mtime_ns for item in path.glob("*/*/[0-9]*.parquet")}


def test_the_number_of_processes_does_not_matter(tmp_path: Path) -> None:
    """Built-in policies and a user's class: the same rows to the bit, and the same log."""
    wanted = plan(["random", "greedy", First])
    for jobs in (1, 2):
        assert execute(wanted, tmp_path / str(jobs), jobs, log=True).failures == ()
    one, two = rows(tmp_path / "1"), rows(tmp_path / "2")
    assert one.equals(two)
    assert len(one) == 3 * 2 * STEPS
    assert one["policy"].unique(maintain_order=True).to_list() == ["first", "greedy", "random"]
    for log in (tmp_path / "1").glob("log/*/*.parquet"):
        assert pl.read_parquet(log).equals(pl.read_parquet(tmp_path / "2" / log.relative_to(tmp_path / "1")))


def test_a_kernel_and_a_plain_class_give_the_same_rows(tmp_path: Path) -> None:
    for number, cls in enumerate([Compiled, Plain]):
        assert execute(plan([cls]), tmp_path / str(number)).failures == ()
    assert rows(tmp_path / "0").equals(rows(tmp_path / "1"))
    assert rows(tmp_path / "0")["action"].n_unique() > 3


def test_visitors_are_the_same_for_all_and_differ_by_seed(tmp_path: Path) -> None:
    execute(plan(["random", "linucb"]), tmp_path)
    best = {key: group["best_probability"].to_list() for key, group in rows(tmp_path).group_by("policy", "seed")}
    assert best["random", 0] == best["linucb", 0]
    assert best["random", 0] != best["random", 1]


def test_a_second_run_computes_what_is_missing(tmp_path: Path) -> None:
    out = tmp_path / "cut"
    first, more = plan(["random", "greedy"], 1), plan(["random", "greedy", "linucb"], 2)
    execute(first, out)
    before = times(out)
    assert missing_trials(first, out, False) == []
    assert len(missing_trials(more, out, False)) == 4
    meter = Meter()
    execute(more, out, meter=meter)
    wanted = {("random", 1), ("greedy", 1), ("linucb", 0), ("linucb", 1)}
    assert meter.visits == dict.fromkeys(wanted, STEPS)
    assert {name: times(out)[name] for name in before} == before
    execute(more, tmp_path / "whole")
    assert rows(out).equals(rows(tmp_path / "whole"))
    again = Meter()
    execute(more, out, meter=again)
    assert again.visits == {}


def test_a_smaller_run_forgets_nothing(tmp_path: Path) -> None:
    """The configuration goes on naming all that the folder holds."""
    execute(plan(["random", "greedy"], 3), tmp_path)
    execute(plan(["linucb"], 1), tmp_path)
    config = RunFolder(tmp_path).read_config()
    assert config["run"]["seeds"] == [0, 1, 2]
    assert {entry["name"] for entry in config["policies"]} == {"random", "greedy", "linucb"}
    assert len(RunFolder(tmp_path).trials()) == 7


def test_a_log_that_is_asked_for_later_is_made(tmp_path: Path) -> None:
    wanted = plan(["random"], 2)
    execute(wanted, tmp_path)
    expected = rows(tmp_path)
    RunFolder(tmp_path).log_path(TrialKey("random", 1)).parent.mkdir(parents=True)
    assert len(missing_trials(wanted, tmp_path, True)) == 2
    execute(wanted, tmp_path, log=True)
    assert missing_trials(wanted, tmp_path, True) == []
    assert rows(tmp_path).equals(expected)


@pytest.mark.parametrize("after", [0, STEPS - 1, 3 * STEPS + 500])
def test_an_interrupted_run_goes_on_from_its_cells(after: int, tmp_path: Path) -> None:
    """In the first trial, at the end of one, in the fourth: what is there is whole, and the rest follows."""
    wanted = plan(["random", "greedy", "linucb"])
    with pytest.raises(KeyboardInterrupt):
        execute(wanted, tmp_path / "cut", meter=Meter(after))
    folder = RunFolder(tmp_path / "cut")
    folder.check()
    done = folder.trials()
    assert len(done) == after // STEPS
    assert all(len(folder.read_trial(key).rewards) == STEPS for key in done)
    meter = Meter()
    execute(wanted, tmp_path / "cut", meter=meter)
    assert len(meter.visits) == 6 - len(done)
    execute(wanted, tmp_path / "whole")
    assert rows(tmp_path / "cut").equals(rows(tmp_path / "whole"))


def test_what_is_damaged_is_set_aside_and_computed_again(tmp_path: Path) -> None:
    """A flipped bit, the trial of another seed, that of another world, and a table that was written anew."""
    wanted = plan(["random", "greedy"])
    execute(wanted, tmp_path / "run", log=True)
    execute(plan(["random"], config={"env": {**SHOP, "n_users": 31}}), tmp_path / "other")
    folder = RunFolder(tmp_path / "run")
    expected = rows(folder.path)
    greedy, random = ([folder.trial_path(TrialKey(name, seed)) for seed in (0, 1)] for name in ("greedy", "random"))
    flipped = bytearray(greedy[0].read_bytes())
    flipped[1_000] ^= 1
    greedy[1].write_bytes(greedy[0].read_bytes())
    greedy[0].write_bytes(flipped)
    random[0].write_bytes(RunFolder(tmp_path / "other").trial_path(TrialKey("random", 0)).read_bytes())
    pl.read_parquet(random[1]).with_columns(reward=1.0).write_parquet(random[1])
    log = folder.log_path(TrialKey("random", 1))
    log.write_bytes(log.read_bytes()[:-9])
    assert len(missing_trials(wanted, folder.path, True)) == 4
    outcome = execute(wanted, folder.path, log=True)
    faults = [note.partition("; moved to ")[0].removeprefix(f"{folder.path}/") for note in outcome.notes]
    assert faults == [
        "cells/greedy/0.parquet is damaged or was changed",
        "cells/greedy/1.parquet is damaged or was changed",
        "cells/random/0.parquet is damaged or was changed",
        "cells/random/1.parquet is damaged or was changed",
        "log/random/1.parquet is damaged or truncated",
    ]
    assert len(list((folder.path / "damaged").iterdir())) == 5
    assert rows(folder.path).equals(expected)
    assert execute(wanted, folder.path, log=True).notes == ()


class Wanderer(First):
    """Changes the working directory whenever it can."""

    def select_action(self, context: Context) -> int:
        os.chdir("/")
        return super().select_action(context)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_policy_that_changes_the_folder_sends_nothing_elsewhere(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    execute(plan([Wanderer, "random"]), Path("run"), jobs, log=True)
    assert Path.cwd() == tmp_path
    assert len(times(tmp_path / "run")) == 8
    assert [item.name for item in tmp_path.iterdir()] == ["run"]


def test_an_interrupt_stops_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes sleep in the middle of a trial; the interrupt ends them, and the next call does their work."""
    wanted = plan([Patient])
    monkeypatch.setenv("TEST_PATIENCE", "3600")
    with pytest.raises(KeyboardInterrupt):
        execute(wanted, tmp_path / "cut", jobs=2, meter=Meter(0))
    assert RunFolder(tmp_path / "cut").trials() == []
    monkeypatch.delenv("TEST_PATIENCE")
    for name in ("cut", "whole"):
        execute(wanted, tmp_path / name)
    assert rows(tmp_path / "cut").equals(rows(tmp_path / "whole"))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_policy_leaves_the_others_alone(jobs: int, tmp_path: Path) -> None:
    """It fails under seed 1; its trial of seed 0 and everybody else's are there, and it is tried again next time."""
    wanted = plan(["random", Failing])
    (failure,) = execute(wanted, tmp_path, jobs).failures
    assert (failure.policy, failure.seed, failure.step) == ("failing", 1, 5)
    assert failure.reason == "ValueError: out of ideas"
    assert failure.place.startswith("test_runner.py:")
    assert RunFolder(tmp_path).trials() == [("failing", 0), ("random", 0), ("random", 1)]
    meter = Meter()
    assert [again.seed for again in execute(wanted, tmp_path, meter=meter).failures] == [1]
    assert set(meter.visits) <= {("failing", 1)}


def test_a_policy_that_cannot_be_made_fails_at_visit_0(tmp_path: Path) -> None:
    class Broken(First):
        def __init__(self, spec: PolicySpec, rng: np.random.Generator) -> None:
            raise RuntimeError("no luck")

    failures = execute(plan([Broken, "random"]), tmp_path).failures
    assert [(f.policy, f.seed, f.step, f.reason) for f in failures] == [
        ("broken", seed, 0, "RuntimeError: no luck") for seed in (0, 1)
    ]
    assert RunFolder(tmp_path).trials() == [("random", 0), ("random", 1)]


SOURCE = """
# of {owner}
from zoosim import Policy, parameter

class Fixed(Policy):
    rank: int = parameter({default}, low=0)

    def select_action(self, context):
        return int(context.available.nonzero()[0][{index}])

    def update(self, context, action, reward, feedback=None):
        pass
"""


def from_file(file: Path, index: str = "0", default: int = 2, **given: Any) -> Plan:
    """Write a policy's file, its content this test's own, and plan a run with it."""
    file.write_text(SOURCE.format(owner=file.parent.name, index=index, default=default))
    fixed = {"name": "fixed", "type": f"{file}:Fixed", **given}
    return plan(["random", "fixed"], config={"policies": ["random", fixed]})


def test_a_policy_whose_file_has_changed_runs_again(tmp_path: Path) -> None:
    out, file = tmp_path / "run", tmp_path / "fixed.py"
    execute(from_file(file), out, log=True)
    before, old = times(out), rows(out)
    changed = from_file(file, "-1")
    assert len(missing_trials(changed, out, False)) == 2
    outcome = execute(changed, out)
    assert [note for note in outcome.notes if note.startswith("fixed: ")]
    assert rows(out).filter(policy="random").equals(old.filter(policy="random"))
    assert {name for name in before if times(out).get(name) == before[name]} == {
        f"{folder}/random/{seed}.parquet" for folder in ("cells", "log") for seed in (0, 1)
    }
    assert set(rows(out).filter(policy="fixed")["action"]) == {7}
    assert not list(out.glob("log/fixed/*.parquet"))  # a log of what the old code did
    same = Meter()
    assert execute(from_file(file, "-1"), out, meter=same).notes == ()
    assert same.visits == {}


def test_a_file_that_moved_is_the_same_policy(tmp_path: Path) -> None:
    execute(from_file(tmp_path / "fixed.py"), tmp_path / "run")
    meter = Meter()
    execute(from_file(tmp_path / "moved.py"), tmp_path / "run", meter=meter)
    assert meter.visits == {}


def test_a_user_policy_with_other_parameters_is_refused(tmp_path: Path) -> None:
    """Its trials would stand under one name with two meanings; nothing is written."""
    out, file = tmp_path / "run", tmp_path / "fixed.py"
    execute(from_file(file, "self.rank"), out)
    before = times(out), (out / "config.yaml").read_text()
    with pytest.raises(ConfigError, match=r"run holds fixed with other parameters; name another folder"):
        execute(from_file(file, "self.rank", rank=3), out)
    assert (times(out), (out / "config.yaml").read_text()) == before
    assert read_meta(RunFolder(out).trial_path(TrialKey("fixed", 0)))["config_hash"] == plan(["random"]).config_hash


@pytest.mark.parametrize("change", [{"discount": 0.95}, {"type": "greedy"}])
def test_a_name_that_meant_another_built_in_policy_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    def short(entry: dict[str, Any]) -> Plan:
        return plan(["short"], config={"policies": [{"name": "short", "type": "d-linucb", **entry}]})

    execute(short({"discount": 0.9}), tmp_path)
    with pytest.raises(ConfigError, match="holds short with other parameters; name another folder"):
        execute(short(change), tmp_path)


def test_another_world_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    execute(plan(["random"]), tmp_path)
    before = times(tmp_path), (tmp_path / "config.yaml").read_text()
    with pytest.raises(ConfigError, match=r"holds another run, with another value of env\.n_users; name"):
        execute(plan(["random"], config={"env": {**SHOP, "n_users": 31}}), tmp_path)
    assert (times(tmp_path), (tmp_path / "config.yaml").read_text()) == before


def test_two_files_of_one_content_are_two_policies(tmp_path: Path) -> None:
    """Editing one after it was imported says nothing of the other."""
    source = (
        "import zoosim\n\n\nclass Mine(zoosim.Policy):\n    def select_action(self, context):\n        return 0\n\n"
    )
    source += "    def update(self, context, action, reward, feedback=None):\n        pass\n"
    files = [tmp_path / name / "mine.py" for name in ("x", "y")]
    for file in files:
        file.parent.mkdir()
        file.write_text(source)
    first, second = (make_entry(f"{file}:Mine") for file in files)
    assert first.fingerprint == second.fingerprint
    files[0].write_text(source + "# edited\n")
    assert make_entry(f"{files[1]}:Mine").fingerprint == second.fingerprint
    assert make_entry(f"{files[0]}:Mine").fingerprint != first.fingerprint


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_policy_warns_of_is_a_note_once_a_policy(tmp_path: Path, jobs: int) -> None:
    out = tmp_path / "run"
    notes = execute(plan([Worried, "random"], seeds=3), out, jobs).notes
    assert [note.split(" ")[0] for note in notes] == ["worried:", "worried:"]
    assert notes[0].startswith("worried: user ")
    assert notes[0].endswith(" is odd")
    assert notes[1] == "worried: divide by zero encountered in log"
    assert execute(plan([Worried, "random"], seeds=3), out, jobs).notes == ()


def test_a_matrix_in_bad_condition_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoosim.policies.kernel.CONDITION", 2.0)
    wide = {"name": "wide", "type": "d-linucb"}
    notes = execute(plan(["d-linucb", "wide"], config={"policies": ["d-linucb", wide]}), tmp_path / "run").notes
    said = "the condition number of its features' matrix is above 2e00, up to which estimates are right to 8 digits"
    assert [note.split("; ")[0] for note in notes] == [f"d-linucb: {said}", f"wide: {said}"]
    assert notes[0].endswith("; scale the features to about 1, or raise the regularization")


def test_other_warnings_go_their_way(tmp_path: Path) -> None:
    class Outdated(First):
        def update(self, *args: Any, **kwargs: Any) -> None:
            warnings.warn("outdated", DeprecationWarning, stacklevel=1)

    with pytest.warns(DeprecationWarning, match="outdated"):
        assert execute(plan([Outdated], seeds=1), tmp_path / "run").notes == ()

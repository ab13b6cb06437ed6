"""Evaluations whose rows are spread over an executor: the same figures to the bit, whoever is lost."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from tests.arena.backends.test_remote import Answering, HidingFiles, Losing, WorkerLost
from tests.off_policy.test_streamed import PRODUCTS, _small_blocks, path  # noqa: F401  (fixtures)
from zoosim.arena.backends import remote
from zoosim.arena.backends.judging import spread_over
from zoosim.arena.backends.local import start_pool, without_main
from zoosim.arena.backends.remote import Remote
from zoosim.core.action_space import RANKINGS
from zoosim.core.errors import ConfigError, PolicyError, ZoosimError
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.parse import read_log
from zoosim.logs.stream import stream_log
from zoosim.off_policy.evaluate import EvaluationInterrupted, evaluate
from zoosim.off_policy.results import Evaluation
from zoosim.off_policy.targets.products import spec_of
from zoosim.policies.base import Policy
from zoosim.policies.persistence import save_policy
from zoosim.policies.registry import find_class

BLOCKS = 24
"""Of 128 rows, in the log of 3,000 that all tests here judge by."""

SMALL: dict[str, Any] = {"estimators": ["ips", "dr"], "samples": 200, "progress": None}


def learned(log: Path) -> Policy:
    policy = find_class("linucb")(spec_of(read_log(log)), np.random.default_rng(0))
    policy.fit(read_log(log).rows(np.arange(500)))
    return policy


@pytest.fixture
def saved(path: Path, tmp_path: Path) -> Path:  # noqa: F811
    return save_policy(learned(path), tmp_path / "learned.npz")


@pytest.mark.parametrize("stream", [True, False])
def test_figures_are_the_same_whoever_is_lost(path: Path, stream: bool) -> None:  # noqa: F811
    """By all estimators, of a log that is read in blocks and of one in memory."""
    names = ["dm", "ips", "clipped-ips", "snips", "dr", "sndr", "switch-dr", "shrunk-dr"]
    options: dict[str, Any] = {"estimators": names, "samples": 200, "overlap": True}
    policies = {"learned": learned(path), "even": np.full(PRODUCTS, 1.0 / PRODUCTS), "column": "column:target"}
    executor = Losing(BLOCKS)
    log = stream_log(path, columns=["target"]) if stream else read_log(path, columns=["target"])
    away = evaluate(log, policies, spread=spread_over(Remote(executor)), **options)
    here = evaluate(read_log(path, columns=["target"]), policies, **options)
    assert executor.calls == BLOCKS + BLOCKS // 2
    assert away.summary == here.summary
    assert repr(away.overlaps) == repr(here.overlaps)


OWN = """
import zoosim
import preferences_of_mine

class Tally:
    def __init__(self):
        self.rewards = 0.0

class Mine(zoosim.Policy):
    def __init__(self, spec, rng):
        super().__init__(spec, rng)
        self.tally = Tally()

    def select_action(self, context):
        return int(self.rng.choice(len(context.available), p=self.propensities(context)))

    def update(self, context, action, reward, feedback=None, next_context=None):
        self.tally.rewards += reward

    def propensities(self, context):
        chances = preferences_of_mine.chances(context) + self.tally.rewards
        return chances / chances.sum()
"""

BESIDE = """
import numpy as np

def chances(context):
    return np.exp(np.arange(len(context.available)) * context.user[0])
"""


@pytest.fixture
def away() -> Iterator[ProcessPoolExecutor]:
    with start_pool(1) as pool, without_main():
        pool.submit(abs, 0).result()  # so that its path is that of now
        yield pool


def test_policies_go_along_with_all_they_hold(away: ProcessPoolExecutor, path: Path, tmp_path: Path) -> None:  # noqa: F811
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "mine.py").write_text(OWN)
    (folder / "preferences_of_mine.py").write_text(BESIDE)
    policy = find_class(f"{folder}/mine.py:Mine")(spec_of(read_log(path)), np.random.default_rng(0))
    policy.fit(read_log(path).rows(np.arange(20)))
    assert vars(policy)["tally"].rewards > 0.0  # which it does not declare as learned
    backend = HidingFiles(away, folder)
    options: dict[str, Any] = {"estimators": ["ips", "dr"], "samples": 200}
    spread = evaluate(stream_log(path), {"mine": policy}, spread=spread_over(backend), **options)
    assert set(backend.hidden) == {"mine.py", "preferences_of_mine.py"}
    assert spread == evaluate(read_log(path), {"mine": policy}, **options)


def test_what_lives_here_is_asked_here(path: Path) -> None:  # noqa: F811
    """Functions, columns, and a class that no other process can find: no worker is needed for them."""

    class Even(Policy):
        def select_action(self, context: Any) -> int:
            return 0

        def update(self, *args: Any) -> None:
            pass

        def propensities(self, context: Any) -> Any:
            return context.available / context.available.sum()

    log = read_log(path, columns=["target"])
    even = np.full(PRODUCTS, 1.0 / PRODUCTS)
    policies = {
        "function": lambda log, start, stop: np.tile(even, (stop - start, 1)),
        "column": "column:target",
        "here": Even(spec_of(log), np.random.default_rng(0)),
    }
    spread = spread_over(Remote(Answering(WorkerLost("gone"))))
    options: dict[str, Any] = {"estimators": ["ips"], "samples": 200}
    assert evaluate(log, policies, spread=spread, **options) == evaluate(log, policies, **options)


class Counting(ThreadPoolExecutor):
    """Keeps how many bytes all tasks of a run share, and how many one of them brings at most."""

    shared = 0
    brought = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        _, parcel, task = args
        self.shared = len(parcel)
        self.brought = max(self.brought, len(task))
        return super().submit(fn, *args, **kwargs)


def test_a_block_brings_its_own_candidates(path: Path) -> None:  # noqa: F811
    """Which may differ from row to row; what all blocks share is no larger for them."""
    log = read_log(path)
    masks = np.random.default_rng(0).random((len(log), PRODUCTS)) < 0.5
    masks[np.arange(len(log)), log.actions] = True
    various = replace(log, candidates=CandidateSets.from_masks(masks), candidate_set=np.arange(len(log)))
    policies = {"learned": learned(path)}
    executor = Counting(1)
    options: dict[str, Any] = {"estimators": ["ips", "dr"], "samples": 200}
    evaluate(log, policies, spread=spread_over(Remote(executor)), **options)
    shared, brought = executor.shared, executor.brought
    away = evaluate(various, policies, spread=spread_over(Remote(executor)), **options)
    assert away == evaluate(various, policies, **options)
    assert executor.shared < shared + 1_000
    assert executor.brought > brought + 1_000


def test_a_block_that_is_always_lost_is_named(path: Path) -> None:  # noqa: F811
    with pytest.raises(PolicyError, match=r"policy linucb: rows \d+ to \d+: its worker was lost 5 times \(WorkerLost"):
        evaluate(stream_log(path), {"linucb": learned(path)}, spread=spread_over(Remote(Answering(WorkerLost("gone")))))


class Wrong(Policy):
    """Gives some visitors no distribution."""

    def select_action(self, context: Any) -> int:
        return 0

    def update(self, *args: Any) -> None:
        pass

    def propensities(self, context: Any) -> Any:
        return context.available / (context.available.sum() + (context.user[1] > 1.0))


def test_errors_of_policies_are_those_of_this_process(path: Path) -> None:  # noqa: F811
    log = stream_log(path)
    policies = {"wrong": Wrong(spec_of(log), np.random.default_rng(0))}
    messages = []
    for spread in (None, spread_over(Remote(ThreadPoolExecutor(1)))):
        with pytest.raises(PolicyError) as caught:
            evaluate(log, policies, spread=spread)
        messages.append(str(caught.value))
    assert messages[0].startswith("policy wrong: row ")
    assert messages[0] == messages[1]


class Patient(Executor):
    """One thread, which begins when so many tasks wait for it; it counts how many did at most."""

    def __init__(self, begins_at: int = 1) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.begins_at = begins_at
        self.begun = threading.Event()
        self.pool.submit(self.begun.wait, 20.0)
        self.lock = threading.Lock()
        self.waiting = 0
        self.most = 0
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        with self.lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            if self.waiting == self.begins_at:
                self.begun.set()
        future = self.pool.submit(fn, *args, **kwargs)
        future.add_done_callback(self.done)
        self.futures.append(future)
        return future

    def done(self, future: "Future[Any]") -> None:
        with self.lock:
            self.waiting -= 1


def test_blocks_in_flight_are_bounded_by_their_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    log = stream_log(path)
    policies = {"linucb": learned(path)}
    for limit, most in ((1, 2), (10**9, BLOCKS)):
        monkeypatch.setattr(remote, "BYTES_IN_FLIGHT", limit)
        executor = Patient(begins_at=most)
        evaluate(log, policies, spread=spread_over(Remote(executor)), estimators=["ips"], samples=200)
        assert executor.most == most


def test_an_interrupt_ends_it(path: Path) -> None:  # noqa: F811
    executor = Patient(begins_at=BLOCKS)

    def interrupt(line: str) -> None:
        if line.startswith("second: judged"):
            raise KeyboardInterrupt

    policies = {"first": learned(path), "second": learned(path)}
    spread = spread_over(Remote(executor))
    with pytest.raises(EvaluationInterrupted) as caught:
        evaluate(stream_log(path), policies, spread=spread, estimators=["ips"], samples=200, progress=interrupt)
    assert caught.value.missing == ("second",)
    assert isinstance(caught.value.evaluation, Evaluation)
    executor.pool.shutdown()
    assert any(future.cancelled() for future in executor.futures)


def test_the_public_call(path: Path, saved: Path) -> None:  # noqa: F811
    lines: list[str] = []
    with ThreadPoolExecutor(2) as executor:
        options = SMALL | {"progress": lines.append}
        away = zoosim.evaluate(path, [saved], stream=True, executor=executor, **options)
    assert "learned: judged 3,000 of 3,000 rows" in lines
    assert away.summary == zoosim.evaluate(path, [saved], **SMALL).summary


def test_what_learns_here_is_judged_there(path: Path) -> None:  # noqa: F811
    with ThreadPoolExecutor(1) as executor:
        away = zoosim.evaluate(path, ["linucb"], train=True, executor=executor, **SMALL)
    assert away.summary == zoosim.evaluate(path, ["linucb"], train=True, **SMALL).summary


def test_other_logs_are_refused_by_name(path: Path) -> None:  # noqa: F811
    rankings = replace(read_log(path), action_space=RANKINGS)
    with pytest.raises(ConfigError, match=r"executor: .* is a log of rankings, and those of single products alone"):
        evaluate(rankings, {"column": "column:target"}, spread=spread_over(Remote(ThreadPoolExecutor(1))))
    with pytest.raises(ConfigError, match=r"executor: got 'slurm:x', expected dask:ADDRESS"):
        zoosim.evaluate(path, ["column:target"], executor="slurm:x", progress=None)


def test_workers_are_asked_once_all_else_is_checked(path: Path, tmp_path: Path) -> None:  # noqa: F811
    executor = Losing(0)
    wrong: list[tuple[Path, str, dict[str, Any], str]] = [
        (tmp_path / "none.parquet", "column:target", {}, "no such file"),
        (path, "linucb", {}, "has learned nothing yet"),
        (path, "column:target", {"out": path}, "--out: .* cannot be written"),
        (path, "column:target", {"samples": -1}, "samples: got -1"),
        (path, "column:missing", {}, "missing"),
    ]
    for log, policy, options, message in wrong:
        with pytest.raises(ZoosimError, match=message):
            zoosim.evaluate(log, [policy], executor=executor, progress=None, **options)
    assert not executor.calls


def test_a_cluster_of_dask(path: Path, saved: Path) -> None:  # noqa: F811
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        executor = f"dask:{cluster.scheduler_address}"
        away = zoosim.evaluate(path, [saved], stream=True, executor=executor, **SMALL)
    assert away.summary == zoosim.evaluate(path, [saved], **SMALL).summary

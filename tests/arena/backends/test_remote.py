"""Workers that share no disk with a run: the same rows to the bit, whoever is lost, and one line for each refusal."""

import os
import pickle
import re
import socket
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from tests.arena.test_runner import First, Meter, plan, rows
from zoosim.arena.backends import Backend
from zoosim.arena.backends.clusters import open_executor
from zoosim.arena.backends.local import Local, start_pool, without_main
from zoosim.arena.backends.remote import Remote
from zoosim.arena.plan import Plan
from zoosim.arena.runner import RunOutcome, TrialWork, run_plan
from zoosim.arena.store import RunFolder
from zoosim.core.errors import ConfigError
from zoosim.experiments.plan import finished_plan, make_plan
from zoosim.experiments.request import RunRequest
from zoosim.policies.registry import PolicyEntry


class WorkerLost(Exception):
    pass


class Losing(Executor):
    """Threads that lose every other task, before it is begun or after it is done; all crosses as bytes."""

    def __init__(self, losses: float = np.inf) -> None:
        self.threads = ThreadPoolExecutor(2)
        self.losses = losses
        self.calls = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        self.calls += 1
        return self.threads.submit(self.lose, self.calls, pickle.dumps((fn, args)))

    def lose(self, call: int, sent: bytes) -> Any:
        is_lost = call % 2 == 0 and call <= self.losses
        if is_lost and call % 4 == 0:
            raise WorkerLost("before")
        fn, args = pickle.loads(sent)
        result = fn(*args)
        if is_lost:
            raise WorkerLost("after")
        return result


class Answering(Executor):
    """Gives one answer to all; to None it gives none."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        if isinstance(self.answer, Exception):
            future.set_exception(self.answer)
        return future


class Closed(Executor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        raise RuntimeError("cannot schedule new futures after shutdown")


def execute(wanted: Plan, path: Path, backend: Backend, meter: Meter | None = None, log: bool = False) -> RunOutcome:
    held = finished_plan(RunFolder(path).read_config()) if (path / "config.yaml").exists() else None
    return run_plan(wanted, path, backend=backend, keep_log=log, report=meter or Meter(), held=held)


def files(path: Path) -> dict[str, bytes]:
    """Return the logs of a run, which hold no times; of trials the rows are compared."""
    return {str(item.relative_to(path)): item.read_bytes() for item in path.glob("log/*/*.parquet")}


def test_rows_and_logs_are_the_same_whoever_is_lost(tmp_path: Path) -> None:
    """A class of this process stays in it; others go away, and every other one is lost on the way."""

    class Here(First):
        pass

    wanted = plan(["random", "greedy", Here])
    execute(wanted, tmp_path / "local", Local(1), log=True)
    executor = Losing()
    meter = Meter()
    outcome = execute(wanted, tmp_path / "remote", Remote(executor), meter, log=True)
    assert outcome.failures == ()
    assert executor.calls > 4
    assert rows(tmp_path / "remote").equals(rows(tmp_path / "local"))
    assert files(tmp_path / "remote") == files(tmp_path / "local")
    assert len(files(tmp_path / "local")) == 12  # with the products of each seed
    assert meter.visits == dict.fromkeys(RunFolder(tmp_path / "local").trials(), 1300)


def test_a_task_that_is_always_lost_fails_alone(tmp_path: Path) -> None:
    (failure,) = execute(plan(["random"], 1), tmp_path, Remote(Answering(WorkerLost("gone")))).failures
    assert str(failure) == "policy random failed, seed 0, step 0: its worker was lost 5 times (WorkerLost: gone)"
    assert RunFolder(tmp_path).trials() == []


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    wanted = plan(["random", "greedy"], 3)
    with pytest.raises(KeyboardInterrupt):
        execute(wanted, tmp_path / "cut", Remote(Losing()), Meter(3_000))
    done = RunFolder(tmp_path / "cut").trials()
    assert len(done) == 2
    meter = Meter()
    execute(wanted, tmp_path / "cut", Remote(Losing()), meter)
    assert len(meter.visits) == 4
    execute(wanted, tmp_path / "whole", Local(1))
    assert rows(tmp_path / "cut").equals(rows(tmp_path / "whole"))


OWN = """
import helper_of_mine

class Mine:
    def __init__(self, spec, rng):
        pass

    def select_action(self, context):
        return helper_of_mine.CHOICE

    def update(self, context, action, reward):
        pass
"""


def labelled(folder: Path, choice: int) -> Plan:
    """Plan a run whose table, policy and the module beside it lie in a folder."""
    table = "\n".join(["x,y,label", *(f"{i / 9},{(i * 7) % 5},{'abc'[i % 3]}" for i in range(60))])
    (folder / "table.csv").write_text(table + "\n")
    (folder / "mine.py").write_text(OWN)
    (folder / "helper_of_mine.py").write_text(f"CHOICE = {choice}\n")
    env = {"data": str(folder / "table.csv"), "label": "label"}
    return make_plan(RunRequest("labelled", 2, 40, [f"{folder}/mine.py:Mine", "linucb"], config={"env": env}))


@pytest.fixture
def away() -> Iterator[ProcessPoolExecutor]:
    with start_pool(1) as pool, without_main():
        pool.submit(abs, 0).result()  # so that its path is that of now
        yield pool


def test_files_go_along(away: ProcessPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table, the user's file and the module beside it: a worker that cannot find them, twice with another one."""
    chosen = []
    for choice in (1, 2):
        folder = tmp_path / str(choice)
        folder.mkdir()
        monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.startswith(str(tmp_path))])
        monkeypatch.delitem(sys.modules, "helper_of_mine", raising=False)
        wanted = labelled(folder, choice)
        backend = HidingFiles(away, folder)
        execute(wanted, tmp_path / f"remote{choice}", backend)
        for name, content in backend.hidden.items():
            (folder / name).write_bytes(content)
        execute(wanted, tmp_path / f"local{choice}", Local(1))
        remote = rows(tmp_path / f"remote{choice}")
        assert remote.equals(rows(tmp_path / f"local{choice}"))
        chosen.append(set(remote.filter(policy="mine")["action"]))
    assert chosen == [{1}, {2}]
    assert not [name for name in sys.modules if name.startswith("zoosim_user") and "zoosim-sent" in name]


class HidingFiles(Remote):
    """Removes a folder's files once they are packed: workers on other machines do not have them."""

    def __init__(self, executor: Executor, folder: Path) -> None:
        super().__init__(executor)
        self.folder = folder
        self.hidden: dict[str, bytes] = {}

    def _submit(self, *content: bytes) -> "Future[bytes]":
        for path in self.folder.glob("*.*"):
            self.hidden[path.name] = path.read_bytes()
            path.unlink()
        return super()._submit(*content)


def test_the_models_and_worlds_of_files_go_along(tmp_path: Path) -> None:
    """They are named by what the run calls them, relative or not; other words are no files."""
    for name in ("model.zoosim", "mine.py", "shop.world", "policy.npz"):
        (tmp_path / name).write_text("")
    entry = PolicyEntry("a", f"{tmp_path}/model.zoosim@{tmp_path}/mine.py:Mine", {"policy": "linucb", "share": 0.5})
    other = PolicyEntry("b", f"{tmp_path}/policy.npz")
    wanted = make_plan(RunRequest("gauntlet", 1, 9, ["random"]))
    found = TrialWork(wanted, False).files([(entry, 0), (other, 1)])
    assert found == {str(tmp_path / name): tmp_path / name for name in ("model.zoosim", "mine.py", "policy.npz")}


class Garbled(Executor):
    """Returns something else than what the function does."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(b"garbled")
        return future


def refusal(executor: Executor, tmp_path: Path) -> str:
    """Return the one line of a run that is refused before anything is written."""
    with pytest.raises(ConfigError) as caught:
        zoosim.run("gauntlet", seeds=1, steps=50, policies=["random"], executor=executor, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_other_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"zoosim": zoosim.__version__, "zoosim code": "0123"}
    monkeypatch.setattr("zoosim.arena.backends.remote.versions", lambda: ours)
    line = refusal(ThreadPoolExecutor(1), tmp_path)
    assert re.fullmatch(
        r"executor: a worker has zoosim code [0-9a-f]{16}, expected 0123 as here; install the same on both", line
    )
    with pytest.raises(ConfigError, match="a worker has zoosim code"):  # one that joins later
        execute(plan(["random"], 1), tmp_path / "later", Remote(ThreadPoolExecutor(1)))


@pytest.mark.parametrize(
    ("executor", "expected"),
    [
        (Closed(), r"Closed takes no work \(RuntimeError: cannot schedule .*, of a run what is finished is kept"),
        (Garbled(), r"executor: its workers cannot take work \(UnpicklingError: .*; they need"),
        (Answering(pickle.PicklingError("no")), r"executor: its workers cannot take work \(PicklingError: no\); they"),
        (
            Answering(ModuleNotFoundError("No module named 'zoosim'")),
            r"No module named 'zoosim'\); they need this zoos",
        ),
    ],
    ids=["closed", "garbled", "cannot pickle", "no zoosim there"],
)
def test_an_executor_of_no_use_is_refused(executor: Executor, expected: str, tmp_path: Path) -> None:
    assert re.search(expected, refusal(executor, tmp_path))


def test_an_executor_without_workers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoosim.arena.backends.remote.QUIET", 0.0)
    for answer, reason in ((None, ""), (WorkerLost("gone"), " (WorkerLost: gone)")):
        said: list[str] = []
        with pytest.raises(ConfigError) as caught:
            Remote(Answering(answer)).greet(said.append, seconds=0.3)
        assert str(caught.value).startswith(f"executor: no worker has answered within 0.3 s{reason}; start workers")
        assert said == ["waiting for a worker of the executor"]


def test_a_pool_that_broke_is_named(tmp_path: Path) -> None:
    """That of Python takes no more work once a process has died; what is done stays, and another goes on."""
    with start_pool(1) as pool, without_main():
        assert pool.submit(os._exit, 1).exception() is not None
        with pytest.raises(ConfigError, match=r"ProcessPoolExecutor takes no work \(BrokenProcessPool: .* is kept"):
            execute(plan(["random"], 1), tmp_path, Remote(pool))
    execute(plan(["random"], 1), tmp_path, Remote(ThreadPoolExecutor(1)))
    assert len(RunFolder(tmp_path).trials()) == 1


def test_a_class_of_another_version_is_refused() -> None:
    work = TrialWork(plan(["random"], 1), False)
    (entry,) = plan([First], 1).entries
    assert work.fault((entry, 0)) == ""
    other = PolicyEntry("first", First, {}, "of other code")
    fault = work.fault((other, 0))
    assert fault == "has another tests.arena.test_runner.First; give it as FILE.py:Class, which is sent along"


@pytest.mark.parametrize("executor", ["slurm:x", "dask", "dask:", "ray:", 3])
def test_an_unknown_executor_is_refused(executor: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"executor: got .*, expected dask:ADDRESS or ray:ADDRESS, or in Python a conc"
    ):
        zoosim.run("gauntlet", seeds=1, steps=50, policies=["random"], executor=executor)


def test_processes_here_and_an_executor_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match=r"jobs: .*, not an executor's; leave one out"):
        zoosim.run("gauntlet", seeds=1, steps=50, policies=["random"], executor="dask:x", jobs=2)


@contextmanager
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_an_address_where_nobody_listens_is_refused() -> None:
    with listening() as address:
        pass
    for name in (f"dask:{address}", f"dask:tcp://{address}", f"ray:{address}"):
        with (
            pytest.raises(
                ConfigError, match=r"executor: nobody answers at .* \(Connection refused\); see that the clus"
            ),
            open_executor(name),
        ):
            pass


def test_the_cluster_of_dask_is_joined_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for its client, of which the calls are written down."""
    calls: list[Any] = []

    class Client:
        def __init__(self, address: str, **options: Any) -> None:
            calls.append((address, options["timeout"]))

        def __enter__(self) -> "Client":
            return self

        def __exit__(self, *_: object) -> None:
            calls.append("left")

        def get_executor(self, *, pure: bool) -> Executor:
            assert not pure  # a task that is tried again would be given the loss of the first
            return ThreadPoolExecutor(1)

    monkeypatch.setitem(sys.modules, "distributed", types.SimpleNamespace(Client=Client))
    with listening() as address, open_executor(f"dask:{address}") as executor:
        assert executor.submit(abs, -1).result() == 1
    assert calls == [(address, 10.0), "left"]


def test_the_cluster_of_ray_is_joined_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for Ray, in which the future of a reference is one of Python's."""
    calls: list[Any] = []

    def remote(**options: Any) -> Callable[[Callable[..., Any]], Any]:
        calls.append(options)
        pool = ThreadPoolExecutor(1)

        def exported(fn: Callable[..., Any]) -> Any:
            def called(*args: Any) -> Any:
                return types.SimpleNamespace(future=lambda: pool.submit(fn, *args))

            return types.SimpleNamespace(remote=called)

        return exported

    ray = types.SimpleNamespace(
        remote=remote, init=lambda **options: calls.append(options["address"]), shutdown=lambda: calls.append("left")
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delitem(sys.modules, "zoosim.arena.backends.ray_executor", raising=False)
    with open_executor("ray:auto") as executor:
        assert [executor.submit(abs, value).result() for value in (-1, -2)] == [1, 2]
    monkeypatch.delitem(sys.modules, "zoosim.arena.backends.ray_executor")
    assert calls == ["auto", {"num_cpus": 1}, "left"]


def test_a_cluster_that_cannot_be_joined_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> None:
        raise ConnectionError("no session")

    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(init=refuse))
    monkeypatch.setitem(sys.modules, "zoosim.arena.backends.ray_executor", types.SimpleNamespace(RayExecutor=None))
    with (
        pytest.raises(
            ConfigError, match=r"executor: cannot join ray at auto \(ConnectionError: no session\); see that"
        ),
        open_executor("ray:auto"),
    ):
        pass


def test_advice_on_large_tasks_is_not_passed_on(tmp_path: Path) -> None:
    """Dask warns of arguments of more than 10 MB."""

    class Advising(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
            warnings.warn("Sending large graph of size 28.61 MiB.\nThis may cause some slowdown.", stacklevel=2)
            return super().submit(fn, *args, **kwargs)

    execute(plan(["random"], 1), tmp_path, Remote(Advising(1)))
    assert len(RunFolder(tmp_path).trials()) == 1

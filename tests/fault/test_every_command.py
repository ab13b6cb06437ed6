"""Every command under bad conditions and killed at any moment: one line or a right result, and nothing is left behind.

The service has tests of its own; `tests/fault/test_commands.py` looks closer at runs.
"""

import asyncio
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from tests.commands import ROOT
from tests.fault.test_commands import UNPRIVILEGED, command, full_disk, killed_run, leftovers
from tests.fault.test_logs import write_table
from tests.serving.shop import COUNTRIES, PRODUCTS, make_model, running
from zoosim.serving.bodies import DecideBody, DeploymentBody

EXAMPLES = ROOT / "examples"
COMMANDS = {
    "list": "list",
    "policies": "policies",
    "run": "run gauntlet --policies random,greedy --seeds 1 --steps 200 --jobs 1 --out new --set env.n_users=20",
    "report": "report run",
    "describe": "describe recommendation --visits 200 --out new",
    "log": "log new.parquet --n 500",
    "schema": "schema table.csv --out new.yaml",
    "import": "import table.csv schema.yaml new.parquet",
    "export": "export service new.parquet",
    "optimum": "optimum --by all --set env.n_products=2 --set env.n_users=1 --set env.k=1",
    "forget": "forget service v1",
    "train": "train shop.parquet --policy linucb --out new.zoosim",
    "train-retriever": "train-retriever shop.parquet --out new.retriever",
    "evaluate": "evaluate log.parquet --policy random --samples 200 --out new",
    "fit-world": "fit-world log.parquet --out new",
    "tune": "tune gauntlet --over linucb.alpha=0.1 --seeds 2 --judge 9:10 --steps 100 --jobs 1 --out new",
    "recommend": "recommend log.parquet --policies random,linear --seeds 1 --visits 200 --jobs 1 --out new",
    "check-policy": f"check-policy {EXAMPLES / 'my_policy.py'}:MyPolicy",
    "check-world": f"check-world {EXAMPLES / 'my_world.py'}:Bookshop",
    "drift": "drift log.parquet --window 1000",
    "forecasts": "forecasts service",
    "loops": "loops --url {loops}",
    "rehearse-launch": "rehearse-launch log.parquet --policy linear --launches 3 --visits-a-day 2000 --out new",
    "launch-report": "launch-report service --out new",
}
LONG = ("train", "train-retriever", "recommend", "rehearse-launch", "optimum")
"""Commands that take ten seconds or compile much, for the slow tests alone."""
OTHER_USER = ("setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=+dac_read_search")
READS_ALL = "--ambient-caps=+dac_read_search"
"""Another user, who may read everything, Python included, and write what all may."""


class Condition(NamedTuple):
    """What is wrong around a command: options of `command`, whether it must go well, and who may write its folder."""

    options: dict[str, Any]
    goes_well: bool = False
    mode: int = 0o777


CONDITIONS = {
    "full disk": Condition({"limits": full_disk(0)}),
    "disk full after 3 kB": Condition({"limits": full_disk(3_000)}),
    "disk full after 100 kB": Condition({"limits": full_disk(100_000)}),
    "read-only folder": Condition({"prefix": UNPRIVILEGED}, mode=0o555),
    "closed output": Condition({"shell": ">&-"}, goes_well=True),
    "all closed": Condition({"shell": "<&- >&- 2>&-"}, goes_well=True),
    "broken output": Condition({"shell": "| true"}),
    "full output": Condition({"shell": "> /dev/full"}),
    "no home": Condition({"environment": dict.fromkeys(("HOME", "ZOOSIM_CACHE", "XDG_CACHE_HOME"))}, goes_well=True),
    "umask 077": Condition({"umask": 0o077}, goes_well=True),
    "another user": Condition({"prefix": (*OTHER_USER, READS_ALL)}, goes_well=True),
    "-O": Condition({"interpreter": ["-O"]}, goes_well=True),
}
MOMENTS = 200
needs_permissions = pytest.mark.skipif(
    UNPRIVILEGED != () and shutil.which("setpriv") is None, reason="permissions do not hold"
)


class AnswerLoops(BaseHTTPRequestHandler):
    """Answers as a service does whose loops are listed: tests/serving/loops has services."""

    def do_GET(self) -> None:
        content = b'{"loops": [{"name": "home", "state": "running", "sentence": "All is well."}]}'
        self.send_response(200)
        self.send_header("Content-Length", f"{len(content)}")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *values: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module", autouse=True)
def loops() -> Iterator[None]:
    """Let a service answer `zoosim loops`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), AnswerLoops)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    line = COMMANDS["loops"]
    COMMANDS["loops"] = line.format(loops=f"http://127.0.0.1:{server.server_port}")
    yield
    COMMANDS["loops"] = line
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that commands read: tables, a log, a run, a service that has decided, and a policy."""
    folder = tmp_path_factory.mktemp("stock")
    write_table(folder)
    assert command("log log.parquet --n 3000", folder).code == 0
    pl.concat([pl.read_csv(folder / "table.csv")] * 10).write_csv(folder / "shop.csv")
    assert command("import shop.csv schema.yaml shop.parquet", folder).code == 0
    assert command(COMMANDS["run"].replace("--out new", "--out run"), folder).code == 0
    model = make_model(tmp_path_factory.mktemp("shop"))

    async def serve() -> None:
        async with running(folder / "service", model, wait=0.1) as service:
            await service.deploy(DeploymentBody("launch", "new", service.keep_model(model)))
            for number in range(30):
                visitor: dict[str, Any] = {"country": COUNTRIES[number % len(COUNTRIES)]}
                await service.decide(DecideBody(visitor, candidates=list(PRODUCTS[:3]), visitor_id=f"v{number % 7}"))
            await asyncio.sleep(0.3)
            assert await service.upkeep.check_writing() == ""

    asyncio.run(serve())
    return folder


def copy_of(stock: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(stock, folder))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder that are there for a reader."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if not path.name.startswith(".")}


def written(name: str, stock: Path, folder: Path) -> dict[str, bytes]:
    """Return the files that are there once a command is done, but for those that differ whenever it runs."""
    made = []
    for _ in range(2):
        copy = copy_of(stock, folder)
        assert command(COMMANDS[name], copy).code == 0
        made.append(contents(copy))
    return {path: content for path, content in made[0].items() if made[1].get(path) == content}


def check_condition(name: str, condition: Condition, folder: Path) -> str:
    """Run a command in a copy of the stock, and return how it ended, as a word; what must not be fails."""
    before = contents(folder)
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for each in folders:
        each.chmod(condition.mode)
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(condition.mode & 0o666)
    ended = command(COMMANDS[name], folder, **condition.options)
    for each in folders:
        each.chmod(0o755)
    assert ended.code in ((0,) if condition.goes_well else (0, 1, 2)), ended.err
    assert leftovers(folder) == []
    if ended.code == 2:
        assert ended.line
        after = contents(folder)
        expected = {path for path in before if name != "report" or not path.startswith("run/")}
        assert {path: after.get(path) for path in expected} == {path: before[path] for path in expected}
    return {0: "done", 1: "stopped", 2: "refused"}[ended.code]


@needs_permissions
@pytest.mark.parametrize(
    ("name", "words"),
    [pair for pair in zip(COMMANDS, cycle(CONDITIONS), strict=False) if pair[0] not in LONG],
)
def test_a_command_ends_well(name: str, words: str, stock: Path, tmp_path: Path) -> None:
    check_condition(name, CONDITIONS[words], copy_of(stock, tmp_path / "copy"))


@needs_permissions
@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_well_under_every_condition(name: str, stock: Path, tmp_path: Path) -> None:
    sound = written(name, stock, tmp_path / "copy")
    ends: dict[str, str] = {}
    for words, condition in CONDITIONS.items():
        copy = copy_of(stock, tmp_path / "copy")
        ends[words] = check_condition(name, condition, copy)
        if ends[words] == "done":
            after = contents(copy)
            assert {path: after.get(path) for path in sound} == sound, words
    print(f"\n{name}: {ends}")


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_leaves_nothing_half_done(name: str, stock: Path, tmp_path: Path) -> None:
    """What is there afterwards is as before or as after the command; run again, it does what it should."""
    moments = MOMENTS // len(COMMANDS) + 1
    sound = written(name, stock, tmp_path / "copy")
    before = contents(stock)
    begun = time.monotonic()
    command(COMMANDS[name], copy_of(stock, tmp_path / "copy"))
    longest = time.monotonic() - begun
    rng = np.random.default_rng(list(name.encode()))
    ends: Counter[str] = Counter()
    for moment, delay in enumerate(np.sort(rng.uniform(0.0, longest, moments))):
        copy = copy_of(stock, tmp_path / "copy")
        number = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[moment % 3]
        ends["done" if killed_run(COMMANDS[name], copy, delay, number) == 0 else "killed"] += 1
        for path, content in contents(copy).items():
            if path in sound and not path.startswith("service/"):
                assert content in (before.get(path), sound[path]), (path, delay)
        assert command(COMMANDS[name], copy).code == 0, delay
        after = contents(copy)
        assert {path: after.get(path) for path in sound} == sound, delay
        assert leftovers(copy) == [], delay
    print(f"\n{name}: {moments} moments over {longest:.1f} s: {dict(ends)}")

"""Commands under bad conditions: one line or a right result, nothing saved is lost, and nothing is left behind."""

import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.commands import ROOT, Ended, Started, new_process, run_zoosim
from tests.waiting import eventually
from zoosim.arena.store import RunFolder

NOBODY = 65_534
RUN = "run gauntlet --policies random,greedy --seeds 2 --steps 200 --jobs 1 --out run --set env.n_users=20"
POLICY = """import os
import time


class Mine:
    def select_action(self, context):
        {body}
        return 0

    def update(self, context, action, reward):
        pass
"""


def command(text: str, cwd: Path, *, limits: Mapping[int, int] | None = None, shell: str = "", **options: Any) -> Ended:
    """Run a command line, as a new process where more than `limits` is set.

    Args:
        text: The command line after `zoosim`.
        cwd: The working directory.
        limits: Resource limits by their number.
        shell: What a shell does with its output, such as `>&-`.
        options: `prefix` and `interpreter`, words before and after Python; changes of `environment`, None for a
            variable that is not set; and options of `subprocess.run`.
    """
    if shell or options:
        ended = _new_process(text, cwd, shell, **options)
    else:
        ended = run_zoosim(*shlex.split(text), cwd=cwd, limits=limits)
    assert "Traceback" not in ended.err, ended.err
    assert "Exception ignored" not in ended.err, ended.err
    return ended


def _new_process(text: str, cwd: Path, shell: str, **options: Any) -> Ended:
    python = [*options.pop("prefix", ()), sys.executable, *options.pop("interpreter", ())]
    words = [*python, "-m", "zoosim", *shlex.split(text)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("environment", {})}
    environment = {key: value for key, value in environment.items() if value is not None}
    line = ["bash", "-o", "pipefail", "-c", f"{shlex.join(words)} {shell}"] if shell else words
    return new_process(line, cwd=cwd, env=environment, timeout=200, **options)


def rows_of(run: Path) -> pl.DataFrame:
    return zoosim.read_run(run).rows


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*")]


@pytest.fixture(scope="module")
def sound_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    assert command(RUN, folder).code == 0
    return folder / "run"


@pytest.fixture(scope="module")
def sound(sound_run: Path) -> pl.DataFrame:
    return rows_of(sound_run)


@pytest.mark.parametrize(
    ("shell", "code"),
    [(">&-", 0), ("<&- >&- 2>&-", 0), ("| true", 1), ("> /dev/full", 2)],
    ids=["closed", "all closed", "broken", "full"],
)
def test_a_run_ends_well_wherever_its_output_goes(shell: str, code: int, tmp_path: Path, sound: pl.DataFrame) -> None:
    ended = command(RUN, tmp_path, shell=shell)
    assert ended.code == code, ended.err
    if code == 2:
        assert "standard output: cannot be read or written" in ended.line
    assert rows_of(tmp_path / "run").equals(sound)
    assert leftovers(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["2>&-", "<&- 2>&-"])
def test_workers_have_streams_where_those_of_a_run_are_closed(shell: str, tmp_path: Path, sound: pl.DataFrame) -> None:
    assert command(RUN.replace("--jobs 1", "--jobs 2"), tmp_path, shell=shell).code == 0
    assert rows_of(tmp_path / "run").equals(sound)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("shell", [">&-", "| true", "> /dev/full"])
def test_a_list_ends_well_wherever_its_output_goes(shell: str, tmp_path: Path) -> None:
    assert command("list", tmp_path, shell=shell).code in (0, 1, 2)


@pytest.mark.parametrize("shell", ["2>/dev/full", ">/dev/full 2>/dev/full", "2>&-"])
def test_what_is_refused_is_no_success_where_nothing_can_be_said(shell: str, tmp_path: Path) -> None:
    assert command("report none", tmp_path, shell=shell).code == 2


def test_an_error_that_nobody_expected_is_no_success() -> None:
    code = "from zoosim.watched import watch; watch('zoosim', lambda: print(1 // 0), '')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, "ZeroDivisionError" in done.stderr) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"environment": {"HOME": None, "ZOOSIM_CACHE": None, "XDG_CACHE_HOME": None}, "umask": 0o077},
        {"interpreter": ["-O"], "umask": 0o000},
    ],
    ids=["no home, umask 077", "-O, umask 000"],
)
def test_a_run_is_the_same_in_an_odd_surrounding(options: dict[str, Any], tmp_path: Path, sound: pl.DataFrame) -> None:
    # One policy alone, as without its cache a process compiles all that it runs.
    assert command(RUN.replace("random,greedy", "random"), tmp_path, **options).code == 0
    assert rows_of(tmp_path / "run").equals(sound.filter(pl.col("policy") == "random"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    assert leftovers(tmp_path) == []


UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()
"""What makes permissions hold for an administrator, too."""


@pytest.mark.skipif(UNPRIVILEGED != () and shutil.which("setpriv") is None, reason="permissions do not hold")
@pytest.mark.parametrize(
    "text",
    [
        RUN,
        "log log.parquet --n 100",
        *(pytest.param(text, marks=pytest.mark.slow) for text in ("report run", "describe recommendation")),
    ],
)
def test_a_folder_that_cannot_be_written_is_refused(text: str, sound_run: Path, tmp_path: Path) -> None:
    shutil.copytree(sound_run, tmp_path / "run")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    folders = [tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    ended = command(text, tmp_path, prefix=UNPRIVILEGED)
    for folder in folders:
        folder.chmod(0o755)
    assert ended.code == 2
    assert "cannot be " in ended.line
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("harm", ["others may write to the cache", "belongs to another user"])
def test_a_cache_that_is_not_ours_alone_is_not_used(harm: str, tmp_path: Path) -> None:
    """It is said once, and nothing is read from it or written to it."""
    cache = tmp_path / "cache"
    cache.mkdir()
    if harm.startswith("others"):
        cache.chmod(0o777)
    elif os.geteuid() == 0:
        os.chown(cache, NOBODY, NOBODY)
    else:
        pytest.skip("only an administrator can give a folder away")
    text = "run gauntlet --policies random --seeds 1 --steps 100 --out run"
    ended = command(text, tmp_path, environment={"ZOOSIM_CACHE": str(cache)})
    assert ended.code == 0
    assert ended.err.count(harm) == 1
    assert list(cache.iterdir()) == []


def full_disk(size: int) -> dict[int, int]:
    """Return limits that stand in for a full disk: no file grows beyond a size."""
    return {resource.RLIMIT_FSIZE: size}


@pytest.mark.parametrize(
    "size", [0, 20_000, *(pytest.param(size, marks=pytest.mark.slow) for size in (1_000, 3_000, 1_000_000))]
)
def test_a_full_disk_is_told_in_one_line(size: int, tmp_path: Path, sound: pl.DataFrame) -> None:
    ended = command(RUN, tmp_path, limits=full_disk(size))
    assert ended.code == 2
    assert "run/" in ended.line or "cannot be written" in ended.line
    assert leftovers(tmp_path) == []
    assert command(RUN, tmp_path).code == 0
    assert rows_of(tmp_path / "run").equals(sound)


@pytest.mark.parametrize("body", ["os._exit(0)", "os._exit(3)", "os.kill(os.getpid(), 11)", "os.kill(os.getpid(), 9)"])
@pytest.mark.parametrize("text", ["check-policy mine.py:Mine", "log log.parquet --n 9 --policy mine.py:Mine"])
def test_no_policy_ends_a_command_unnoticed(text: str, body: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY.format(body=body))
    ended = command(text, tmp_path)
    assert ended.code == 1
    assert ended.line.startswith(f"zoosim: {text.split()[0]} ended before it was done")


def test_a_policy_that_ends_its_process_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY.format(body="os._exit(0)"))
    text = RUN.replace("--seeds 2 --steps 200", "--seeds 1 --steps 50")
    ended = command(f"{text} --policy mine.py:Mine", tmp_path)
    assert ended.code == 1
    assert "policy mine failed, seed 0, step 0: its process died" in ended.line
    assert rows_of(tmp_path / "run")["policy"].unique().sort().to_list() == ["greedy", "random"]


def test_a_check_has_a_time_limit(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY.format(body="time.sleep(1_000)"))
    ended = command("check-policy mine.py:Mine --limit 3", tmp_path)
    assert ended.code == 1
    assert ended.line == "zoosim: mine.py:Mine: the check 'acts' took longer than 3 s, and was stopped"


def test_a_check_refuses_the_name_that_a_run_refuses(tmp_path: Path) -> None:
    text = POLICY.format(body="pass").replace("class Mine:", "class Mine:\n    name = 'linucb'\n")
    (tmp_path / "mine.py").write_text(text)
    ended = command("check-policy mine.py:Mine", tmp_path)
    assert ended.code == 2
    assert "'linucb' is a built-in policy; give your class another `name`" in ended.line


@pytest.mark.parametrize("text", [f"{RUN} --config big.yaml", "describe search --config big.yaml"])
def test_what_grows_without_bound_is_refused_with_bounded_memory(text: str, tmp_path: Path) -> None:
    """Aliases ten deep, ten each: 10**10 words in 370 bytes. 4 GB of addresses have to do."""
    tens = [f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]" for n in range(9)]
    (tmp_path / "big.yaml").write_text("\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x, x]", *tens, "env: *a9"]))
    ended = command(text, tmp_path, limits={resource.RLIMIT_AS: 4 * 2**30})
    assert ended.code == 2
    assert "big.yaml:5: not valid YAML: holds more than 100,000 keys and values" in ended.line


UNCLOSED = re.compile(r"Exception ignored in: .*\n(?:Traceback.*\n|  .*\n)*ResourceWarning: .*\n")
"""What Python says, where warnings are errors, of a file of its own that a signal left open while it was read."""


def killed_run(text: str, cwd: Path, delay: float, number: int) -> int:
    """Start a command, send it a signal after a while, and return how it ended."""
    with Started(*shlex.split(text), cwd=cwd) as started:
        time.sleep(delay)
        started.send_signal(number)
        ended = started.end()
    errors = UNCLOSED.sub("", ended.err)
    assert "Traceback" not in errors, errors
    return ended.code


DEAF = """import signal
import time


class Mine:
    def select_action(self, context):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
        print("deaf", flush=True)
        time.sleep(1_000)
        return 0

    def update(self, context, action, reward):
        pass
"""
"""A policy that no signal ends, as compiled code while it runs."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_answers_no_signal_is_killed_soon(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(DEAF)
    (tmp_path / "start.py").write_text("from zoosim import cli, watched\nwatched.GRACE = 1\ncli.main()\n")
    words = ["start.py", "log", "log.parquet", "--n", "9", "--policy", "mine.py:Mine"]
    written = tmp_path / "written"
    with written.open("wb") as output, Started(*words, cwd=tmp_path, output=output) as process:
        eventually(lambda: "deaf\n" in written.read_text())
        process.send_signal(number)
        assert process.wait(100.0) == 130
    assert written.read_text().splitlines()[-1] == "zoosim: interrupted; nothing was saved"
    assert leftovers(tmp_path) == []


def test_a_working_directory_that_is_gone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    line = f"cd gone; rmdir ../gone; {shlex.quote(sys.executable)} -m zoosim log x.parquet --n 9"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "zoosim: the working directory is gone; change to one that is there\n"


def test_where_no_more_files_may_be_open_a_command_says_so(tmp_path: Path) -> None:
    """Standard streams, and one for Python to read a module."""
    ended = command("list", tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5)))
    assert ended.code == 1
    assert ended.line == "zoosim: list cannot start another process: Too many open files"


@pytest.mark.parametrize("text", ["log ''", "report ''", "run gauntlet --out ''", "run gauntlet --out="])
def test_an_empty_argument_is_refused(text: str, tmp_path: Path) -> None:
    """As a path it would mean the working directory."""
    ended = command(text, tmp_path)
    assert ended.code == 2
    assert ended.line.startswith(f"zoosim: got {'--out=' if text.endswith('=') else ''!r} as an argument")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("delay", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3])
def test_an_interrupted_start_says_nothing(delay: float) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "zoosim", "list"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    # Before anything of zoosim runs, Python answers a signal by a traceback.
    assert b"Traceback" not in err or str(ROOT / "zoosim").encode() not in err, err


@pytest.mark.parametrize("delay", [1.0, pytest.param(1.6, marks=pytest.mark.slow), 2.2])
def test_ctrl_c_in_a_terminal_says_one_line_while_workers_start(delay: float, tmp_path: Path) -> None:
    """A terminal interrupts every process of the command; with 100,000 visits the run cannot be done by then."""
    text = RUN.replace("--steps 200 --jobs 1", "--steps 100000 --jobs 2")
    words = [sys.executable, "-m", "zoosim", *shlex.split(text)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, start_new_session=True)
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=100)
    lines = [line for line in err.decode().splitlines() if not line.startswith(("note: ", "["))]
    assert process.returncode == 130
    assert lines[-1:] == ["zoosim: interrupted; finished trials are saved, repeat the command to resume"], err
    assert "Traceback" not in err.decode()


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param(3, id="short"),
        pytest.param(200, id="long", marks=[pytest.mark.slow, pytest.mark.timeout(3_000)]),
    ],
)
def test_a_run_that_is_killed_goes_on(moments: int, tmp_path: Path, sound: pl.DataFrame) -> None:
    """At moments spread over the command: what was saved stays as it is, and the same rows come of it."""
    begun = time.monotonic()
    command(RUN, tmp_path)
    longest = time.monotonic() - begun
    rng = np.random.default_rng(0)
    ends = {"killed": 0, "done": 0}
    for moment, delay in enumerate(np.sort(rng.uniform(0.0, longest, moments))):
        folder = tmp_path / str(moment)
        folder.mkdir()
        number = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[moment % 3]
        code = killed_run(RUN, folder, delay, number)
        ends["done" if code == 0 else "killed"] += 1
        run = RunFolder(folder / "run")
        saved = {path: path.read_bytes() for path in map(run.trial_path, run.trials())}
        result = zoosim.run(
            "gauntlet", policies=["random", "greedy"], seeds=2, steps=200, jobs=1, out=folder / "run",
            settings=["env.n_users=20"],
        )  # fmt: skip
        assert result.rows.equals(sound), (moment, delay)
        assert {path: path.read_bytes() for path in saved} == saved
        assert leftovers(folder) == []
    print(f"\n{moments} moments: {ends}")
    assert ends["killed"] > 0

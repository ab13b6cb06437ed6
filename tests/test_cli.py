"""The command line as a user meets it: exit codes, one clear line, nothing written that was refused, nothing lost."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer

from tests.commands import ROOT, Ended, Started, new_process, run_zoosim
from tests.waiting import eventually
from zoosim import __version__ as package_version
from zoosim.cli import app, run_command
from zoosim.cli_help import DURATIONS, STEPS
from zoosim.core.parameters import parameters_of
from zoosim.policies.registry import BUILT_IN, find_class

SMALL = ["--seeds", "2", "--steps", "300", "--policies", "random,linucb", "--jobs", "1"]
POLICY = """import zoosim


class Mine(zoosim.Policy):
    def select_action(self, context):
        {choose}

    def update(self, context, action, reward, feedback=None):
        pass
"""


def refusal(*arguments: str, cwd: Path) -> str:
    """Return the one line of a refusal: exit code 2, nothing on standard output, and nothing written."""
    before = contents(cwd)
    ended = ended_here(*arguments, cwd=cwd)
    assert (ended.code, ended.out) == (2, ""), ended.err
    lines = ended.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("zoosim: ")
    assert contents(cwd) == before
    return lines[0]


def ended_here(*arguments: str, cwd: Path) -> Ended:
    """Run a command to its end in this process, from which workers start at once."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["zoosim", *arguments])
        patch.setattr(signal, "signal", lambda *_: None)
        for hook in ("excepthook", "unraisablehook"):
            patch.setattr(sys, hook, getattr(sys, hook))
        try:
            run_command()
            code: Any = 0
        except SystemExit as end:
            code = end.code or 0
    return Ended(code, out.getvalue(), err.getvalue())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return path.name


def mine(folder: Path, choose: str) -> str:
    return f"{write(folder / 'mine.py', POLICY.format(choose=choose))}:Mine"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "gauntlte"], "unknown experiment 'gauntlte' (did you mean gauntlet?)"),
        (["list", "gauntlett"], "unknown experiment 'gauntlett' (did you mean gauntlet?)"),
        (["run", "gauntlet", "--policies", "linucbb"], "unknown policy 'linucbb' (did you mean linucb?)"),
        (["run", "gauntlet", "--policies", ","], "none were named"),
        (["run", "gauntlet", "--set", "env.n_product=5"], "unknown key 'n_product' (did you mean n_products?)"),
        (["run", "gauntlet", "--set", "policies.linucb.alhpa=5"], "unknown parameter 'alhpa' (did you mean alpha?)"),
        (["run", "gauntlet", "--set", "policies.linucb.alpha=-1"], "got -1.0, expected 0 to 100"),
        (["run", "gauntlet", "--set", "env.personas.budget_shoper.Dog Toy=.5"], "unknown persona 'budget_shoper'"),
        (["run", "gauntlet", "--set", "env.personas.budget_shopper.Dog Toi=.5"], "unknown category 'Dog Toi'"),
        (["run", "gauntlet", "--set", "env.personas.budget_shopper.Dog Toy=1.5"], "got 1.5"),
        (["run", "gauntlet", "--set", "env.personas.budget_shopper.Dog Toy=-.1"], "got -0.1"),
        (["run", "gauntlet", "--set", "env.personas.budget_shopper.Dog Toy=.nan"], "got nan"),
        (["run", "gauntlet", "--set", "env.n_products=0"], "got 0"),
        (["run", "gauntlet", "--set", "env.n_products=-3"], "got -3"),
        (["run", "gauntlet", "--set", "env.n_users=0"], "got 0"),
        (["run", "gauntlet", "--steps", "0"], "steps: got 0"),
        (["run", "gauntlet", "--steps", "-5"], "steps: got -5"),
        (["run", "gauntlet", "--steps", "many"], "'--steps'"),
        (["run", "gauntlet", "--seeds", "0"], "seeds: got '0'"),
        (["run", "gauntlet", "--seeds", "-1"], "seeds: got '-1'"),
        (["run", "gauntlet", "--seeds", "9:3"], "seeds: got '9:3'"),
        (["run", "gauntlet", "--jobs", "0"], "jobs: got 0"),
        (["run", "gauntlet", "--executor", "slurm:x"], "executor: got 'slurm:x', expected dask:ADDRESS or ray:ADDRESS"),
        (["tune", "gauntlet", "--over", "linucb.alpha"], "over: got 'linucb.alpha', expected POLICY.KEY=A,B,C"),
        (["run", "gauntlet", "--sedes", "3"], "No such option: --sedes"),
        (["run"], "Missing argument 'NAME'"),
        (["run", "q-sanity"], "q-sanity is a study, which compares no policies; run `python -m studies q-sanity` in a"),
        (["run", "no.py:Shop"], "world file: no.py is not there"),
        (["check-world", "no.py:Shop"], "world file: no.py is not there"),
        (["runn"], "No such command 'runn'"),
        (["run", "gauntlet", "--config", "none.yaml"], "none.yaml: no such file"),
        (["run", "gauntlet", "--policy", "none.py:Mine"], "none.py is not there"),
        (["run", "labelled", "--data", "none.csv"], "none.csv: no such file"),
        (["run", "labelled", "--policies", "static-mlp"], "needs user ids, but labelled has none"),
        (["report", "none"], "none is not a folder"),
        (["describe"], "Missing argument 'WORLD|FILE'"),
        (["describe", "serach"], "unknown world 'serach' (did you mean search?)"),
        (["describe", "labelled"], "unknown world 'labelled'"),
        (["describe", "search", "--seed", "-1"], "seed: got -1, expected a whole number, 0 to"),
        (["describe", "search", "--visits", "0"], "visits: got 0, expected a whole number, 1 to"),
        (["describe", "search", "--set", "env.n_product=5"], "unknown key 'n_product' (did you mean n_products?)"),
        (["describe", "search", "--set", "policies.linucb.alpha=1"], "expected env.KEY"),
        (["describe", "search", "--set", "env.catalogue_file=none.csv"], "none.csv: no such file"),
        (["describe", "search", "--config", "none.yaml"], "none.yaml: no such file"),
        (["log", "log.csv"], "expected a file that ends in .parquet"),
        (["check-policy", "none.py:Mine"], "none.py is not there"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: list[str], told: str, tmp_path: Path) -> None:
    out = ["--out", "out"] if arguments[0] == "run" else []
    assert told in refusal(*arguments, *out, cwd=tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("env: {n_products: [\n", "shop.yaml:2: not valid YAML"),
        ("env: {n_users: 5}\nenv: {n_users: 6}\n", "given twice"),
        ("- 1\n", "holds a list"),
        ("worlds: {}\n", "unknown key 'worlds'"),
        (
            "env: {shocks: [{step: 90, name: a, set: {budget_shopper: {Dog Toy: .5}}}]}\nrun: {steps: 50}\n",
            "'a' is at step 90, beyond the run of 50 steps",
        ),
        (
            "env:\n  shocks:\n  - {step: 9, name: a, set: {budget_shopper: {Dog Toy: .5}}}\n"
            "  - {step: 9, name: b, set: {budget_shopper: {Dog Toy: .6}}}\n",
            "two shocks at step 9 set budget_shopper x Dog Toy",
        ),
        ("env: {shocks: [{step: 9, name: a, set: {nobody: {Dog Toy: .5}}}]}\n", "unknown persona 'nobody'"),
        ("env: {shocks: [{step: 9, name: a, set: {budget_shopper: {Toy: .5}}}]}\n", "unknown category 'Toy'"),
        ("run: {seeds: 0}\n", "seeds: got 0"),
        ("policies: []\n", "expected a list"),
        ("policies: [{name: linucb, type: greedy}]\n", "is the name of a built-in policy"),
    ],
)
def test_a_broken_file_is_refused_in_one_line(text: str, told: str, tmp_path: Path) -> None:
    name = write(tmp_path / "shop.yaml", text)
    assert told in refusal("run", "gauntlet", "--config", name, "--out", "out", cwd=tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nothing_of_that_name\n", "mine.py:1 does not import: ModuleNotFoundError"),
        ("class Mine(:\n", "mine.py:1 does not import: SyntaxError"),
        ("x = 1\n", "has no class 'Mine'"),
        ("Mine = 3\n", "Mine in mine.py is a int, expected a class"),
        ("class Mine:\n    def select_action(self, context):\n        return 0\n", "lacks update"),
        (
            POLICY.format(choose="return 0").replace("    def", "    name = 'linucb'\n\n    def", 1),
            "'linucb' is a built-in policy; give your class another",
        ),
    ],
)
def test_a_file_without_a_policy_is_refused_in_one_line(text: str, told: str, tmp_path: Path) -> None:
    name = write(tmp_path / "mine.py", text)
    assert told in refusal("run", "gauntlet", "--policy", f"{name}:Mine", "--out", "out", cwd=tmp_path)


def test_help_imports_no_heavy_module(tmp_path: Path) -> None:
    (tmp_path / "show_help.py").write_text(
        "import sys\n\nfrom zoosim.cli import app\n\n"
        "app(['--help'], standalone_mode=False)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    command = [sys.executable, "show_help.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=60)
    assert "check-policy" in done.stdout
    imported = set(done.stderr.split())
    assert "zoosim" in imported
    assert not imported & {"numba", "torch", "polars", "plotly", "sklearn", "scipy", "pydantic", "rich"}


def test_public_names_are_imported_when_used() -> None:
    import zoosim as package

    assert set(package.__all__) == set(package._MODULE_OF)
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize(
    ("arguments", "call", "kept"),
    [
        ("evaluate log.parquet --policy random", "zoosim.api.logs.evaluate", "nothing was saved"),
        ("recommend log", "zoosim.api.recommend.recommend", "finished trials are saved, repeat the command to resume"),
        (
            "rehearse-launch log",
            "zoosim.api.rehearse_launch.rehearse_launch",
            "finished launches are saved, repeat the command to go on with them",
        ),
        ("run gauntlet", "zoosim.api.runs.run", "finished trials are saved, repeat the command to resume"),
        (
            "tune gauntlet --over linucb.alpha=1,2",
            "zoosim.api.tune.tune",
            "finished trials are saved, repeat the command to resume",
        ),
    ],
)
def test_an_interrupted_command_says_what_is_saved(
    arguments: str, call: str, kept: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(call, interrupt)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["zoosim", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        run_command()
    assert ended.value.code == 130
    assert capsys.readouterr().err.splitlines()[-1] == f"zoosim: interrupted; {kept}"


def test_folders_that_will_not_do_are_refused(tmp_path: Path) -> None:
    done = ended_here("run", "gauntlet", *SMALL, "--out", "out", cwd=tmp_path)
    assert done.code == 0, done.err
    other = ["run", "gauntlet", *SMALL, "--out"]
    told = refusal(*other, "out", "--set", "env.n_users=9", cwd=tmp_path)
    assert "holds another run, with another value of env.n_users" in told
    (tmp_path / "file").write_text("mine")
    assert "is a file, expected a folder" in refusal(*other, "file", cwd=tmp_path)
    assert "cannot be written" in refusal(*other, "file/below", cwd=tmp_path)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.doc").write_text("mine")
    assert "holds thesis.doc, not a run" in refusal(*other, "foreign", cwd=tmp_path)
    trial = tmp_path / "out" / "cells" / "linucb" / "1.parquet"
    whole = trial.read_bytes()
    trial.write_bytes(whole[:200])
    assert "1.parquet is damaged or was changed" in refusal("report", "out", cwd=tmp_path)
    again = run_zoosim(*other, "out", cwd=tmp_path)
    assert again.code == 0, again.err
    moved = Path("out", "damaged", "1-cells-linucb-1.parquet")
    assert f"is damaged or was changed; moved to {moved}, it is computed again" in again.out.replace("\n", " ")
    assert (tmp_path / moved).read_bytes() == whole[:200]
    assert pl.read_parquet(trial).equals(pl.read_parquet(whole))


@pytest.mark.parametrize(
    ("choose", "reason"),
    [
        ("return 1 // 0", "mine.py:6: ZeroDivisionError"),
        ("import os; os._exit(0)", "its process died"),
        *(
            pytest.param(choose, reason, marks=pytest.mark.slow)
            for choose, reason in (
                ("return 50", "mine.py:5: ValueError: select_action returned 50, expected 0 to 49"),
                ("return float('nan')", "mine.py:5: ValueError: select_action returned nan, expected an integer"),
                ("raise SystemExit(0)", "mine.py:6: SystemExit"),
            )
        ),
    ],
)
def test_a_policy_that_fails_is_told_and_the_others_finish(choose: str, reason: str, tmp_path: Path) -> None:
    arguments = ["--seeds", "2", "--steps", "300", "--policies", "random,mine", "--policy", mine(tmp_path, choose)]
    run = run_zoosim if "_exit" in choose else ended_here  # which shows that a command does not end with its worker
    done = run("run", "gauntlet", *arguments, "--out", "out", "--jobs", "2", cwd=tmp_path)
    assert done.code == 1
    [line] = [line for line in done.err.splitlines() if line.startswith("zoosim: ")]
    assert line.startswith("zoosim: policy mine failed, seed 0, step 0")
    assert reason in line
    assert "Traceback" not in done.err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [failure["seed"] for failure in summary["policies"]["mine"]["failed"]] == [0, 1]
    assert summary["policies"]["random"]["failed"] == []
    assert summary["policies"]["random"]["oracle_fraction"]["mean"] > 0.2


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    arguments = ["--seeds", "1", "--steps", "50", "--policies", "mine", "--policy", mine(tmp_path, "return 1 // 0")]
    done = run_zoosim("run", "gauntlet", *arguments, "--out", "out", "--debug", cwd=tmp_path)
    assert done.code == 1
    assert "return 1 // 0" in done.err
    assert "Traceback" in done.err


HANGS = """
import os, signal, tempfile, time
from zoosim import cli

@cli.app.command("hang")
def hang() -> None:
    with tempfile.TemporaryDirectory(dir="."):
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(60.0)

cli.main()
"""


def test_a_command_whose_terminal_is_closed_cleans_up(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HANGS, "hang"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "zoosim: interrupted; nothing was saved\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    arguments = ["run", "gauntlet", "--seeds", "3", "--steps", "600", "--policies", "random,mine", "--jobs", "2"]
    flag = tmp_path / "slow"
    flag.touch()
    slow = mine(tmp_path, f"import os, time; time.sleep(0.002 * os.path.exists({str(flag)!r})); return 7")
    command = [*arguments, "--policy", slow, "--out"]
    with Started(*command, "cut", cwd=tmp_path) as run:
        eventually(lambda: list(tmp_path.glob("cut/cells/mine/*.parquet")))
        run.send_signal(number)
        ended = run.end()
    flag.unlink()
    assert ended.code == 130
    message = "zoosim: interrupted; finished trials are saved, repeat the command to resume"
    assert ended.err.splitlines()[-1] == message
    done = {path: path.stat().st_mtime_ns for path in tmp_path.glob("cut/cells/*/*.parquet")}
    assert 0 < len(done) < 6
    assert run_zoosim(*command, "cut", cwd=tmp_path).code == 0
    assert ended_here(*command, "whole", cwd=tmp_path).code == 0
    assert {path: path.stat().st_mtime_ns for path in done} == done
    cut, whole = (pl.read_parquet(tmp_path / name / "rows.parquet") for name in ("cut", "whole"))
    assert cut.equals(whole)


def test_what_a_run_prints_and_keeps(tmp_path: Path) -> None:
    done = run_zoosim("run", "gauntlet", *SMALL, "--out", "out", "--json", "--csv", "--log", cwd=tmp_path)
    assert done.code == 0, done.err
    out = tmp_path / "out"
    assert done.out == (out / "summary.json").read_text()
    summary: dict[str, Any] = json.loads(done.out)
    assert (summary["seeds"], summary["steps"]) == ([0, 1], 300)
    rows = pl.read_parquet(out / "rows.parquet")
    assert rows.height == 1_200
    assert pl.read_csv(out / "rows.csv").height == 1_200
    assert pl.read_parquet(out / "log" / "linucb" / "0.parquet")["propensity"].to_list() == [1.0] * 300
    before = contents(out / "cells")
    again = run_zoosim("run", "gauntlet", *SMALL, "--out", "out", cwd=tmp_path)
    assert again.code == 0
    assert contents(out / "cells") == before
    assert "wins" in again.out or "No clear winner" in again.out
    assert again.out.rstrip().splitlines()[-1] == f"Page: {(out / 'report.html').as_uri()}"
    assert "dropped" in again.out  # both built-in shocks come later than the end


def test_a_page_is_drawn_again_without_the_policys_file(tmp_path: Path) -> None:
    arguments = ["--seeds", "1", "--steps", "300", "--policies", "random,mine", "--policy", mine(tmp_path, "return 3")]
    assert ended_here("run", "gauntlet", *arguments, "--out", "out", cwd=tmp_path).code == 0
    (tmp_path / "mine.py").unlink()
    (tmp_path / "out" / "report.html").unlink()
    done = run_zoosim("report", "out", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "mine" in (tmp_path / "out" / "report.html").read_text()


def test_a_log_holds_records(tmp_path: Path) -> None:
    done = run_zoosim("log", "runs/log.parquet", "--n", "500", "--policy", "greedy", cwd=tmp_path)
    assert done.code == 0, done.err
    assert re.fullmatch(r"Log: \S+ \(500 decisions of greedy, mean reward 0\.\d+\)\n", done.out)
    log = pl.read_parquet(tmp_path / "runs" / "log.parquet")
    assert log.height == 500
    assert log["propensity"].is_between(0, 1).all()
    failed = run_zoosim("log", "bad.parquet", "--n", "5", "--policy", mine(tmp_path, "return 1 // 0"), cwd=tmp_path)
    assert failed.code == 1
    assert failed.err.startswith("zoosim: policy mine failed, seed 0, step 0 at mine.py:6")
    assert not (tmp_path / "bad.parquet").exists()


@pytest.mark.parametrize("arguments", [["--version"], ["-h"], ["train", "-h"], ["policies", "LinUCB"]])
def test_what_a_newcomer_types_first(arguments: list[str], tmp_path: Path) -> None:
    done = run_zoosim(*arguments, cwd=tmp_path)
    if arguments[0] == "--version":
        assert done.out == f"zoosim {package_version}\n"
    elif arguments[0] == "policies":
        assert (done.code, "(did you mean linucb?)" in done.err) == (2, True)
    else:
        assert (done.code, done.out.startswith("Usage: zoosim ")) == (0, True)
        assert max(map(len, done.out.splitlines())) <= 80
        assert "50,000 rows" in done.out


def test_commands_are_completed(tmp_path: Path) -> None:
    asked = {"_ZOOSIM_COMPLETE": "complete_bash", "COMP_WORDS": "zoosim policies mixed", "COMP_CWORD": "2"}
    line = [sys.executable, "-m", "zoosim"]
    done = new_process(line, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), **asked})
    assert (done.code, done.out.split()) == (0, ["mixed-effects"])


def test_every_command_has_its_step_in_the_help() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(commands) == sorted(name for names in STEPS.values() for name in names)
    assert set(DURATIONS) <= set(commands)


def test_policies_are_listed_with_defaults_and_ranges_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert max(map(len, run_zoosim("policies", cwd=tmp_path).out.splitlines())) <= 86  # the last line is a sentence
    monkeypatch.setenv("COLUMNS", "300")
    listed = run_zoosim("policies", cwd=tmp_path).out
    marked = [line.split()[0] for line in listed.splitlines() if "[baseline as published" in line]
    assert marked == ["neural-linear-online", "neural-linear-head", "neural-linear-stable", "dropout-ts"]
    assert {line.split()[0] for line in listed.splitlines() if line.startswith("  ")} == set(BUILT_IN)
    described = run_zoosim("policies", "d-linucb", cwd=tmp_path).out
    for name in parameters_of(find_class("d-linucb")):
        assert name in described
    assert {"head-to-head", "showdown", "gauntlet", "labelled"} <= {
        line.split()[0] for line in run_zoosim("list", cwd=tmp_path).out.splitlines()
    }
    good = run_zoosim("check-policy", f"{ROOT / 'examples' / 'my_policy.py'}:MyPolicy", cwd=tmp_path)
    assert (good.code, good.out.splitlines()[-1]) == (0, "14 of 14 checks passed")
    bad = run_zoosim("check-policy", mine(tmp_path, "return 99"), cwd=tmp_path)
    assert bad.code == 1
    assert "FAIL  acts: select_action returned 99" in bad.out


def test_a_described_world_is_printed_as_a_table_with_a_sentence_or_as_json(tmp_path: Path) -> None:
    small = ("describe", "sessions", "--set", "env.levels=1", "--set", "env.most_clicks=1")
    printed = run_zoosim(*small, cwd=tmp_path).out
    figures = json.loads(run_zoosim(*small, "--json", cwd=tmp_path).out)
    assert f"optimum                             {figures['ladder'][-1]['clicks']:9.2f}" in printed
    # Sentences are folded where the terminal ends.
    assert figures["answer"] in " ".join(printed.split())
    assert max(map(len, printed.splitlines()[:-3])) <= 80


def test_what_nobody_handles_is_left_to_our_hook() -> None:
    code = "import sys, zoosim.cli as cli; sys.argv[1:] = ['list']; cli.run_command()"
    ask = "import atexit, sys; atexit.register(lambda: print(sys.excepthook.__qualname__, file=sys.stderr))"
    done = subprocess.run([sys.executable, "-c", f"{ask}; {code}"], capture_output=True, text=True, check=True)
    assert done.stderr == "_Interrupt.hide\n"

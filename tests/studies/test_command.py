"""`python -m studies`: the list, a study with a shop from a file, and what is refused in one line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import zoosim
from studies import __main__ as command
from studies.run import run_study
from studies.search_logs import read_shifting_shop
from studies.shops import SHOP, read_shop
from studies.study import STUDIES
from tests.caches import use_cache
from zoosim import experiments
from zoosim.core.errors import ConfigError


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["studies", *words])
    command.main()


def test_the_list_names_every_study_without_loading_any() -> None:
    line = "import runpy, sys; runpy.run_module('studies', run_name='__main__'); assert 'torch' not in sys.modules"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", line], cwd=root, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(STUDIES)


class NoTorch:
    """Finds no torch."""

    def find_spec(self, name: str, *_: object) -> None:
        """Raise for torch as Python does for what is not installed."""
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


def test_what_the_package_lacks_without_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only devices other than the processor; a study that compares with it says in one line what to install."""
    package = Path(zoosim.__file__).parent
    importing = {path.name for path in package.rglob("*.py") if "import torch" in path.read_text()}
    assert importing == {"card_scan.py", "devices.py", "ensemble_torch.py"}
    monkeypatch.setattr(sys, "meta_path", [NoTorch(), *sys.meta_path])
    for module in [name for name in sys.modules if name == "torch" or name.startswith("studies.bottleneck")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(SystemExit) as stopped:
        call(monkeypatch, "bottleneck")
    assert stopped.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("pip install 'zoosim[torch]'")


def test_the_package_knows_their_names_and_says_where_they_are() -> None:
    assert sorted(experiments.STUDIES) == sorted(STUDIES)
    with pytest.raises(ConfigError, match=r"q-sanity is a study, .* run `python -m studies q-sanity` in a checkout"):
        zoosim.run("q-sanity")


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_can_be_done(name: str) -> None:
    study = STUDIES[name]
    assert callable(study.load().build_page)
    assert set(study.options()) <= {
        "seeds",
        "jobs",
        "config",
        "data",
        "days",
        "launches",
        "plan",
        "replays",
        "events",
        "behaviour",
        "cases",
        "cells",
        "draws",
        "effects",
        "hours",
        "shops",
        "calls",
        "learners",
        "observe",
        "own",
        "pairs",
        "policies",
        "results",
        "steps",
        "visitors",
        "visits",
        "worlds",
        "writers",
        *BOTTLENECK,
    }


BOTTLENECK = ("candidates", "networks", "updates")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["q-insanity"], "unknown study 'q-insanity'"),
        (
            ["q-sanity", "--set", "calls=3"],
            "q-sanity: takes --seeds VALUE, --jobs VALUE, --out and --json alone; leave",
        ),
        (["cem-optima", "--config", "x.yaml"], "cem-optima: takes --seeds VALUE, --jobs VALUE, --out and --json alone"),
        (["q-sanity", "--set", "calls"], "--set: got 'calls', expected PATH=VALUE"),
        (["q-sanity", "--seeds", "x"], "seeds: got 'x'"),
        (["q-sanity", "--jobs", "0"], "jobs: got 0, expected a whole number, 1 to 1,024"),
        (["latency", "--set", "calls=0"], "latency: calls: got 0"),
        (["leaderboard", "nowhere"], "leaderboard: nowhere has 0 files *.json, expected 1 to 1,000 results"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        call(monkeypatch, *words, "--out", str(tmp_path / "out"))
    said = capsys.readouterr().err
    assert said.startswith(f"studies: {message}")
    assert said.count("\n") == 1


def test_a_study_of_another_shop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from studies.action_shaping import weights

    monkeypatch.setattr(weights, "VISITS", 33)
    monkeypatch.setattr(weights, "JUDGED", 20)
    file = tmp_path / "shop.yaml"
    file.write_text("env:\n  n_products: 60\n  a_max: 0.8\nrun:\n  seeds: 3\n", encoding="utf-8")
    words = ("action-shaping", "--config", str(file), "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "out"))
    call(monkeypatch, *words, "--json")
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert summary["study"] == "action-shaping"
    assert printed.err == "  1 of 1: seed 0\n"
    assert f"--config {file}" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    own = run_study(
        "action-shaping", tmp_path / "own", seeds=1, jobs=1, config={"env": {"n_products": 60, "a_max": 0.8}}
    )
    assert [row.reward for row in own.rows] == [row["reward"] for row in summary["rows"]]


def test_a_file_changes_what_it_names() -> None:
    plain, other = read_shop(None), read_shop({"env": {"k": 5}, "experiment": "template-bandits"})
    assert (plain.n_products, plain.a_max) == (SHOP["n_products"], SHOP["a_max"])
    assert other == plain.model_copy(update={"k": 5})
    assert read_shifting_shop(None).n_products == 1_000
    assert read_shifting_shop({"env": {"n_products": 70}}).shifts == read_shifting_shop(None).shifts


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shop": {}}, "config: unknown key 'shop'"),
        ({"env": [1]}, r"config: env: got \[1\], expected keys of a search shop"),
        ({"env": {"n_product": 3}}, "n_product"),
    ],
)
def test_files_of_something_else_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_shop(changes)
    with pytest.raises(ConfigError, match="shifts: got 0, expected one"):
        read_shifting_shop({"env": {"shifts": []}})


def test_shops_that_a_study_cannot_use_are_refused() -> None:
    categories = {"env": {"categories": {"cats": {"share": 1.0}}}}
    with pytest.raises(ConfigError):
        run_study("action-shaping", config=categories)


def test_any_number_of_jobs_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    for jobs in (1, 2):
        use_cache(monkeypatch, tmp_path / f"cache {jobs}")  # nothing that the other one has kept
        options: dict[str, Any] = {"seeds": 2, "policies": "random,greedy", "steps": 200}
        rows.append(run_study("late-rewards", tmp_path / f"{jobs}", jobs=jobs, **options).rows)
    assert rows[0] == rows[1]
    assert len({(row.policy, row.seed) for row in rows[0]}) == 4

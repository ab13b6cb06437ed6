"""What `zoosim list NAME` prints: the keys of the experiment's world, with the values that they have in it."""

from pathlib import Path

import pytest

from zoosim.core.errors import ConfigError, WorldError
from zoosim.experiments import EXPERIMENTS
from zoosim.terminal.experiments import print_experiment, print_experiments

EXAMPLE = f"{Path(__file__).parents[2] / 'examples' / 'my_world.py'}:Bookshop"


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the printed lines, which fit 80 columns."""
    print_experiment(name)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 or name == EXAMPLE  # a path is not broken
    return lines


def test_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    print_experiments()
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert listed == list(EXPERIMENTS)


@pytest.mark.parametrize("name", [*EXPERIMENTS, "recommendation", "search"])
def test_keys_of_every_world_fit_a_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(name, capsys)
    assert lines[0] == name
    assert "Keys below env, each with default (range): meaning" in lines


def test_defaults_are_those_of_the_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert "  random_personas.personas    needed (1 to 1,000): how many personas" in printed("gauntlet", capsys)
    assert "  random_personas.personas    4 (1 to 1,000): how many personas" in printed("robustness", capsys)
    assert any(
        line.startswith("  shocks                      2 of them (see below)") for line in printed("gauntlet", capsys)
    )


def test_keys_of_a_users_world(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(EXAMPLE, capsys)
    assert lines[1] == "Show one of the books on today's shelf to each reader."
    assert "  n_books  60 (10 to 1,000): books in the shop" in lines


def test_a_world_without_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bare.py"
    file.write_text(
        "from zoosim.worlds.base import World\nclass Bare(World):\n    'No parameters.'\n"
        "    def spec(self, steps): ...\n    def arrive(self, step): ...\n    def context(self, visit): ...\n"
        "    def serve(self, visit, action): ...\n    def truth(self, visit): ...\n    def all_products(self): ...\n"
    )
    print_experiment(f"{file}:Bare")
    assert capsys.readouterr().out.splitlines()[1:] == ["No parameters.", "", "Its world has no parameters."]


def test_bad_names_are_refused_in_a_line() -> None:
    with pytest.raises(ConfigError, match=r"unknown experiment 'gauntlett' \(did you mean gauntlet\?\)"):
        print_experiment("gauntlett")
    with pytest.raises(WorldError, match="not there"):
        print_experiment("nowhere.py:World")

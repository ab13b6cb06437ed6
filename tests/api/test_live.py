"""A run is watched at an address of this machine while it goes on, and saves what it would save unwatched."""

import urllib.request
from pathlib import Path
from typing import Any

import pytest

import zoosim
from tests.commands import run_zoosim
from zoosim.api.live import RunPage
from zoosim.arena.store import TrialKey

SMALL: dict[str, Any] = {"policies": ["random", "greedy"], "seeds": 2, "steps": 2_000, "jobs": 1, "progress": False}


class Watched(RunPage):
    """A page that is read whenever a trial has said something."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.pages: list[str] = []
        super().__init__(self.lines.append)

    def report(self, key: TrialKey, visits: int, line: str) -> None:
        super().report(key, visits, line)
        self.read()

    def read(self) -> str:
        with urllib.request.urlopen(self.lines[0].split()[-1], timeout=30) as answer:
            self.pages.append(answer.read().decode())
        return self.pages[-1]


def test_a_run_can_be_watched_and_its_rows_are_the_same(tmp_path: Path) -> None:
    unwatched = zoosim.run("gauntlet", **SMALL, out=tmp_path / "unwatched")
    with Watched() as page:
        watched = zoosim.run("gauntlet", **SMALL, out=tmp_path / "run", live=page)
        over = page.read()
    assert watched.rows.equals(unwatched.rows)
    assert page.lines[0].startswith("Watch the run at http://127.0.0.1:")
    assert "0 of 4 trials are over, 0% of the visits" in page.pages[0]
    assert any("1 of 4 trials are over" in text for text in page.pages)
    assert f"The run is over. {watched.verdict}" in over
    with pytest.raises(OSError, match="refused"):
        page.read()


def test_what_a_folder_holds_is_shown_when_a_run_goes_on(tmp_path: Path) -> None:
    zoosim.run("gauntlet", **SMALL, out=tmp_path / "run")
    with Watched() as page:
        zoosim.run("gauntlet", **{**SMALL, "seeds": 3}, out=tmp_path / "run", live=page)
    assert "4 of 6 trials are over, 0% of the visits" in page.pages[0]
    assert page.pages[0].count("<polyline") == 8  # two policies in two figures of two sizes


def test_the_command_ends_with_the_run_where_nobody_sits_at_a_terminal(tmp_path: Path) -> None:
    options = ("--policies", "random", "--seeds", "1", "--steps", "500", "--jobs", "1")
    done = run_zoosim("run", "gauntlet", *options, "--live", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "Watch the run at http://127.0.0.1:" in done.err

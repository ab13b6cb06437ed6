"""Public calls refuse wrong arguments in one line, take one policy for a list of one, and show progress if asked."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import zoosim
from zoosim.core.calls import CalledWhileImported, automatic_progress, importing, public_call
from zoosim.core.errors import ArgumentError, ConfigError, PolicyError
from zoosim.core.types import Progress
from zoosim.policies.registry import find_class

SCRIPT = """import zoosim


class Mine(zoosim.Policy):
    def select_action(self, context):
        return 0

    def update(self, context, action, reward, feedback=None):
        pass


zoosim.run("gauntlet", policies=[Mine], seeds=1, steps=100)
"""


@public_call
def count(policies: Sequence[str], *, share: float = 0.5, progress: Progress = automatic_progress) -> int:
    progress("counting")
    return len(policies)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"policies": [], "shre": 0.1}, "count: unknown argument 'shre' (did you mean share?); known: policies, share"),
        ({}, "count: missing a required argument: 'policies'; expected count(policies, share=..., progress=...)"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        count(**arguments)  # type: ignore[arg-type]
    assert told in str(refused.value)
    assert isinstance(refused.value, TypeError)
    assert isinstance(refused.value, ConfigError)


@pytest.mark.parametrize(
    "call",
    [
        lambda: zoosim.run("gauntlet", policy="random"),  # type: ignore[call-arg]
        lambda: zoosim.train("log.parquet", ["linucb"], shar=0.5),  # type: ignore[call-arg]
        lambda: zoosim.evaluate("log.parquet", ["random"], intervall="bernstein"),
        lambda: zoosim.describe("search", visit=3),  # type: ignore[call-arg]
        lambda: zoosim.recommend("log.parquet", policie="linucb"),  # type: ignore[call-arg]
    ],
)
def test_public_calls_name_what_was_meant(call: object) -> None:
    assert callable(call)
    with pytest.raises(ArgumentError, match="did you mean"):
        call()


def test_one_policy_is_a_list_of_one(tmp_path: Path) -> None:
    assert count("random") == 1
    assert count(["random", "linucb"]) == 2
    result = zoosim.run("gauntlet", policies="random", seeds=1, steps=50, jobs=1, out=tmp_path)
    assert result.policies["policy"].to_list() == ["random"]


def test_progress_is_shown_only_if_somebody_sees_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    count([], progress=lines.append)
    assert lines == ["counting"]
    count([])  # standard error is no terminal here
    count([], progress=None)  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    count([])
    assert "counting" in capsys.readouterr().err


def test_a_file_that_runs_something_when_imported_is_told_where(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(SCRIPT, encoding="utf-8")
    with pytest.raises(
        PolicyError, match=r"first.py:12 calls zoosim.run while it is imported; put that below `if __na"
    ):
        find_class(f"{tmp_path / 'first.py'}:Mine")
    guarded = SCRIPT.replace("\nzoosim.run", '\nif __name__ == "__main__":\n    zoosim.run')
    (tmp_path / "first.py").write_text(guarded, encoding="utf-8")
    assert find_class(f"{tmp_path / 'first.py'}:Mine").__name__ == "Mine"


def test_short_calls_may_be_made_while_a_file_is_imported() -> None:
    with importing():
        with pytest.raises(CalledWhileImported):
            count([])
        with pytest.raises(ConfigError, match="no-such-run"):
            zoosim.read_run("no-such-run")


def test_only_public_names_are_listed() -> None:
    assert dir(zoosim) == sorted(["__version__", *zoosim.__all__])

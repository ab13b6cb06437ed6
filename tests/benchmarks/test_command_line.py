"""The benchmark of the command line's times runs, small."""

import pytest

from benchmarks.speed import command_line
from zoosim.cli_help import DURATIONS


def test_each_command_is_timed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(DURATIONS) <= {arguments[0] for arguments in command_line.COMMANDS}
    monkeypatch.setattr(command_line, "COMMANDS", command_line.COMMANDS[:2])
    command_line.each_command(rows=1_000)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [["S22", "zoosim", name] for name in ("schema", "import")]
    assert all(line.endswith("s of processor time") for line in lines)

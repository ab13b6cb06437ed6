"""What `zoosim loops` prints."""

import pytest

from zoosim.terminal.loops import print_loops


def test_loops_are_a_table_and_a_log_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    print_loops({"loops": [{"name": "home", "state": "running", "sentence": "All is \x1b[1mwell."}], "log": "kept/old"})
    out = capsys.readouterr().out
    assert "home  running  All is" in out
    assert "\x1b" not in out
    assert "Its log is kept in kept/old." in out
    print_loops({"loops": [], "log": None})
    assert "`zoosim loops add NAME`" in capsys.readouterr().out

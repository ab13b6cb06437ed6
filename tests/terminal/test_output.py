"""Lists fit into the terminal: what is said stands beside a name, or below one that is long."""

import pytest

from zoosim.terminal.output import print_list


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_list_fits_into_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long = "a column of the shop's table that has a rather long name"
    print_list({"age": "number, 18 to 80", long: "left out: " + "depends on the item shown " * 6}, 2, err=True)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert max(map(len, lines)) <= width
    assert lines[0].split() == ["age", "number,", "18", "to", "80"]
    assert lines[1] == f"  {long}"
    assert " ".join(" ".join(lines[2:]).split()) == ("left out: " + "depends on the item shown " * 6).strip()

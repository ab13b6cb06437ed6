"""Messages are one line of printable characters, whatever names out of files they quote."""

from zoosim.core.errors import LONGEST, DataError, PolicyFailure


def test_a_message_is_one_line() -> None:
    assert str(DataError("no column 'a\nb'; known: \x1b[31mred\u202e, ü")) == (
        r"no column 'a b'; known: \x1b[31mred\u202e, ü"
    )
    assert str(PolicyFailure("mine", 0, 3, "two\r\nlines")) == "policy mine failed, seed 0, step 3: two  lines"


def test_a_message_is_no_longer_than_it_can_be_read() -> None:
    message = str(DataError("start " + "x" * 10**6 + " end"))
    assert len(message) < LONGEST + 10
    assert message.startswith("start ")
    assert message.endswith(" end")

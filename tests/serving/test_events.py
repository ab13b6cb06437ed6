"""Rows of the log and their records."""

import pytest

from zoosim.core.errors import DataError
from zoosim.serving.events import Feedback, Kind, Row, feedback_key, pack, unpack


def test_a_row_is_decoded_once_however_many_read_it() -> None:
    row = Row(1, 2, Kind.FEEDBACK, feedback_key("d", "f"), pack(Feedback({"click": 1.0}, 0)))
    assert unpack(row) is row.record
    assert row == tuple(row)
    other = row._replace(body=pack(Feedback({"click": 0.0}, 1)))
    assert unpack(other) == Feedback({"click": 0.0}, 1)


def test_a_row_that_cannot_be_read_is_refused_each_time() -> None:
    row = Row(7, 2, Kind.FEEDBACK, b"f", b"\xc1")
    for _ in range(2):
        with pytest.raises(DataError, match="row 7 cannot be read"):
            unpack(row)

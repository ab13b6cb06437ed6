"""Lines of progress tell the time that is left at the pace so far, from the second one on."""

import pytest

from zoosim.core.countdown import Countdown


def test_the_pace_since_the_first_report_tells_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 rows in 5 s after a first report that took long: 20 rows a second, so 800 take 40 s."""
    now = [1_000.0]
    monkeypatch.setattr("zoosim.core.countdown.time.monotonic", lambda: now[0])
    lines: list[str] = []
    work = Countdown(lines.append, "judged", 1_000, "rows")
    for done, seconds in ((100, 60.0), (200, 5.0), (990, 39.5), (1_000, 0.5)):
        now[0] += seconds
        work.report(done)
    assert lines == [
        "judged 100 of 1,000 rows",
        "judged 200 of 1,000 rows, about 40 s left",
        "judged 990 of 1,000 rows",
        "judged 1,000 of 1,000 rows",
    ]

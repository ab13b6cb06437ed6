"""The example of click rates: what personas are defined by, beside what was observed."""

import re

import pytest

from examples.click_rates import TRIALS, main
from zoosim.core.config import EnvConfig


def test_observed_rates_are_beside_those_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """The sum of 20 shares of 100 has a standard error of sqrt(sum p (1 - p) / 100); it is within 3 of the expected."""
    main()
    lines = capsys.readouterr().out.splitlines()
    rows = {}
    for line in lines[1:-1]:
        persona, category, expected, observed, *_ = re.split(r"\s{2,}", line)
        rows[persona, category] = (int(expected.rstrip("%")) / 100, int(observed.rstrip("%")) / 100)
    table = {(p, c): chance for p, row in EnvConfig().personas.items() for c, chance in row.items()}
    assert {key: expected for key, (expected, _) in rows.items()} == table
    error = sum(p * (1 - p) / TRIALS for p in table.values()) ** 0.5
    total = sum(observed for _, observed in rows.values())
    assert abs(total - sum(table.values())) < 3 * error
    assert total != sum(table.values())
    outside = sum(line.endswith("(outside)") for line in lines)
    assert lines[-1] == f"{len(table) - outside} of {len(table)} intervals hold the expected click rate."

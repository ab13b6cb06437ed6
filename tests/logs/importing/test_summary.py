"""What an import says of a log: counts that can be done by hand, and propensities that do not fit."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from zoosim.logs.importing.summary import facts_of, share_of
from zoosim.schema.schema import Schema

SCHEMA = Schema.model_validate(
    {
        "columns": {"action": "item", "propensity": "p", "time": "at", "user_id": "customer"},
        "rewards": {"click": "click", "revenue": "gmv"},
        "objective": {"click": 1.0, "revenue": 0.5},
    }
)


def records(n: int = 4) -> pl.DataFrame:
    began = datetime(2026, 3, 1, 10, tzinfo=UTC)
    return pl.DataFrame(
        {
            "action": np.arange(n) % 2,
            "propensity": np.full(n, 0.5),
            "click": [1.0, *[0.0] * (n - 1)],
            "revenue": [3.0, *[0.0] * (n - 1)],
            "time": pl.Series([began + timedelta(hours=row) for row in range(n)]),
            "user_id": ["a", "b"] * (n // 2),
        }
    )


def test_facts_count_what_the_rows_hold() -> None:
    """4 rows, of which 1 is clicked for 3.00: .75 a row; 1 / .5 is 2, and there are 2 candidates."""
    assert facts_of(records(), SCHEMA, np.full(4, 2.0), 7) == {
        "rows": "4 rows, 2 visitors",
        "products": "2 shown; 7 more products of the table were never shown: policies know them by their columns",
        "time": "2026-03-01 10:00 to 2026-03-01 13:00, UTC",
        "reward click": "25% of rows (1)",
        "reward revenue": "0.75 a row; not 0 in 25% of rows (1)",
        "learned": "click + 0.5 revenue",
        "propensity": "mean 0.5; 1/propensity averages 2 for 2 candidates, as it should",
    }
    berlin = facts_of(records(), SCHEMA.model_copy(update={"time_zone": "Europe/Berlin"}), np.full(4, 2.0))
    assert berlin["time"] == "2026-03-01 11:00 to 2026-03-01 14:00, Europe/Berlin"
    assert facts_of(records().drop("propensity"), SCHEMA, np.full(4, 2.0))["propensity"].startswith("none: ")


def test_propensities_that_do_not_fit_the_candidates_are_named() -> None:
    """The mean of 1 / propensity is the number of candidates with a chance: 2, not 3 and not 1."""
    many = records(400)
    assert "some are never shown" in facts_of(many, SCHEMA, np.full(400, 3.0))["propensity"]
    assert "are these the probabilities" in facts_of(many, SCHEMA, np.full(400, 1.0))["propensity"]


def test_shares_have_two_digits() -> None:
    assert [share_of(part, 10_000) for part in (10_000, 4_567, 234, 1)] == ["100%", "46%", "2.3%", "0.01%"]

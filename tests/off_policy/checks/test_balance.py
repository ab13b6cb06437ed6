"""What weights shift, told from what few rows that carry all the weight happen to hold."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.quality.fooled import sound
from zoosim.core.rng import stream
from zoosim.off_policy.checks.balance import imbalances
from zoosim.off_policy.checks.probe import Probe
from zoosim.off_policy.intervals.clusters import make_clusters

ROWS = 4_000


@pytest.fixture
def rare_value() -> Probe:
    """A log whose only feature is 1 in its last tenth of rows, and 0 in others, in no order of time."""
    log = sound.plain(stream(0, "balance")).log.rows(np.arange(ROWS))
    features = np.zeros((ROWS, 1))
    features[-ROWS // 10 :] = 1.0
    return Probe(replace(log, features=features, times=None), make_clusters(ROWS), 1.0)


def test_a_rare_value_that_few_weighted_rows_lack_is_chance(rare_value: Probe) -> None:
    """Of 24 rows that carry all the weight, one in twelve samples holds no value that one row in ten has."""
    weights = np.zeros(ROWS)
    weights[: 24 * 100 : 100] = ROWS / 24
    assert imbalances(rare_value, weights) == []


def test_a_rare_value_that_many_weighted_rows_lack_is_a_fault(rare_value: Probe) -> None:
    weights = np.zeros(ROWS)
    weights[:3_000] = ROWS / 3_000
    [(name, shift), *_] = imbalances(rare_value, weights)
    assert "column 0" in name
    assert shift == pytest.approx(1.0 / 3.0, abs=1e-6)

"""The boosts served last are kept for each pair of segment and query type, and come back from a saved state."""

import numpy as np
import pytest

from zoosim.core.errors import ConfigError
from zoosim.policies.boosts.last_boosts import LastBoosts
from zoosim.policies.checks.search_shop import ONE_PRODUCT, SMALL


def test_each_pair_has_its_own_and_begins_with_the_first() -> None:
    first = np.array([0.0, 0.0, 0.1, 0.0])
    last = LastBoosts(SMALL.spec, first)
    pairs = {visit: SMALL.context(visit).features[:5].tolist() for visit in range(20)}
    last.record(SMALL.context(0), np.ones(4))
    for visit, pair in pairs.items():
        np.testing.assert_array_equal(last.of(SMALL.context(visit)), np.ones(4) if pair == pairs[0] else first)
    loaded = LastBoosts(SMALL.spec, np.zeros(4))
    loaded.load_state_dict(last.state_dict())
    np.testing.assert_array_equal(loaded.of(SMALL.context(0)), np.ones(4))


def test_a_shop_without_segments_has_one_for_all() -> None:
    last = LastBoosts(ONE_PRODUCT.spec, np.zeros(4))
    last.record(ONE_PRODUCT.context(0), np.full(4, 0.5))
    np.testing.assert_array_equal(last.of(ONE_PRODUCT.context(1)), np.full(4, 0.5))


def test_boosts_outside_the_box_are_refused() -> None:
    last = LastBoosts(SMALL.spec, np.zeros(4))
    with pytest.raises(ConfigError, match=r"last holds boosts outside \[-2, 2\]"):
        last.load_state_dict({"last": np.full((6, 4), 2.5)})

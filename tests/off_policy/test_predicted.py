"""Values that a model of later rows predicts: the order of policies, where importance weights tell little."""

from dataclasses import replace

import numpy as np

from tests.policies.from_log.test_from_log import fitted
from tests.policies.from_log.test_mixed_effects import K, shop
from zoosim.off_policy.predicted import predict_values
from zoosim.off_policy.targets.products import spec_of
from zoosim.off_policy.training import earlier_and_later
from zoosim.policies.products.random import Random


def test_policies_are_ordered_by_what_they_earn() -> None:
    """Trained on 400, 1,600 and 4,800 rows, and random, seeds 0 to 3: in this order, as their true values are."""
    for seed in range(4):
        log, _ = shop(seed, 8_000)
        earlier, later = earlier_and_later(log)
        policies = {n: fitted("mixed-effects", earlier.rows(np.arange(n))) for n in (4_800, 1_600, 400)}
        random = Random(spec_of(log), np.random.default_rng(0))
        values = predict_values({**{str(n): policy for n, policy in policies.items()}, "random": random}, later)
        assert max(values, key=lambda name: values[name]) != "random"
        assert values["random"] < values["400"] < values["4800"]


def test_it_needs_neither_propensities_nor_features_of_visitors() -> None:
    """Half of the products are clicked .5 of the time, the others .1: random earns .3, the better half .5."""
    rng = np.random.default_rng(0)
    log, _ = shop(0, 4_000)
    clicks = (rng.random(len(log)) < np.where(log.actions < K // 2, 0.5, 0.1)).astype(float)
    bare = replace(log, features=np.zeros((len(log), 0)), rewards=clicks, propensities=np.full(len(log), np.nan))
    earlier, later = earlier_and_later(bare, 0.5)
    policies = {"best": fitted("mixed-effects", earlier, explore=0.0), "random": Random(spec_of(bare), rng)}
    values = predict_values(policies, later)
    assert abs(values["random"] - 0.3) < 0.03
    assert abs(values["best"] - 0.5) < 0.06

"""Values that a model of a log predicts: the order of policies, where importance weights tell little."""

from dataclasses import replace

import numpy as np
import pytest

from tests.policies.from_log.test_from_log import context_of, fitted
from tests.policies.from_log.test_mixed_effects import K, shop
from zoosim.off_policy.predicted import predict_values
from zoosim.off_policy.targets.products import spec_of
from zoosim.off_policy.training import earlier_and_later
from zoosim.policies.products.random import Random


def test_policies_are_ordered_by_what_they_earn() -> None:
    """Trained on 400, 1,600 and 4,800 rows, and random, seeds 0 and 1: in this order, as their true values are."""
    for seed in range(2):
        log, _ = shop(seed, 8_000)
        earlier, later = earlier_and_later(log)
        policies = {n: fitted("mixed-effects", earlier.rows(np.arange(n))) for n in (4_800, 1_600, 400)}
        random = Random(spec_of(log), np.random.default_rng(0))
        values = predict_values({**{str(n): policy for n, policy in policies.items()}, "random": random}, later)
        assert max(values, key=lambda name: values[name]) != "random"
        assert values["random"] < values["400"] < values["4800"]


@pytest.mark.slow
def test_rows_that_policies_learned_from_make_values_right() -> None:
    """4,000 rows of 6% clicks, 3,200 to learn from, seeds 0 to 7: the mean ratio of predicted to true values.

    Some 48 later clicks calibrate each, to 15%, so their mean is known to 5%; three of that.
    """
    ratios = []
    for seed in range(8):
        log, odds = shop(seed, 4_000)
        earlier, later = earlier_and_later(log, 0.8)
        policies = {kind: fitted(kind, earlier, explore=0.0) for kind in ("mixed-effects", "linear")}
        values = predict_values(policies, later, earlier)
        for kind, policy in policies.items():
            chosen = [policy.recommend(context_of(later, row)) for row in range(800)]
            truth = 1.0 / (1.0 + np.exp(-odds[3_200:][np.arange(800), chosen]))
            ratios.append(values[kind] / float(truth.mean()))
    assert abs(np.mean(ratios) - 1.0) < 0.15


def test_it_needs_neither_propensities_nor_features_of_visitors() -> None:
    """Half of the products are clicked .5 of the time, the others .1: random earns .3, the better half .5.

    Some 600 clicks calibrate the level to 4%, and the tilt, known to .1 at most, adds 5% at .5: .5 x 3 x 6.5% is .1.
    """
    rng = np.random.default_rng(0)
    log, _ = shop(0, 4_000)
    clicks = (rng.random(len(log)) < np.where(log.actions < K // 2, 0.5, 0.1)).astype(float)
    bare = replace(log, features=np.zeros((len(log), 0)), rewards=clicks, propensities=np.full(len(log), np.nan))
    earlier, later = earlier_and_later(bare, 0.5)
    policies = {"best": fitted("mixed-effects", earlier, explore=0.0), "random": Random(spec_of(bare), rng)}
    values = predict_values(policies, later, earlier)
    assert abs(values["random"] - 0.3) < 0.03
    assert abs(values["best"] - 0.5) < 0.1

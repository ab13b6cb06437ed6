"""Values of logs of a small catalogue, as dense probabilities gave them before distributions were compressed."""

from typing import Any

import numpy as np
import pytest

from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.targets.products import spec_of
from zoosim.policies.registry import find_class

ROWS, PRODUCTS = 2_000, 12
ESTIMATORS = ("dm", "ips", "snips", "dr")

KEPT = {
    ("everything", "table"): [0.22582831910202986, 0.258857843804819, 0.2558050892181116, 0.2514829017632387],
    ("everything", "policy"): [0.19643907768108504, 0.12904958867911992, 0.14680956454993382, 0.16174157283886412],
    ("candidates", "table"): [0.2439483667579039, 0.2790373435843891, 0.27784993971566424, 0.2765114829226853],
    ("candidates", "policy"): [0.1814441380745287, 0.12878192438359518, 0.12950619359773502, 0.13351228436280094],
    ("unavailable", "table"): [0.2439483667579039, 0.2790373435843891, 0.27784993971566424, 0.2765114829226853],
    ("unavailable", "policy"): [0.1814441380745287, 0.12878192438359518, 0.12950619359773502, 0.13351228436280094],
    ("users", "table"): [0.22914435562820598, 0.258857843804819, 0.2558050892181116, 0.25128964463998765],
    ("users", "policy"): [0.20213646119890477, 0.12904958867911992, 0.14680956454993382, 0.1602237079275589],
}
"""By kind of log and policy: the values of `ESTIMATORS`."""


def log_of(kind: str) -> tuple[Log, np.ndarray]:
    """Return a log whose rows offer everything, list candidates or list what is none, and a target `(n, K)`."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(40, 4))[rng.integers(40, size=ROWS)]
    masks = rng.random((30, PRODUCTS)) < 0.6
    masks[:, 0] = True
    sets, users = rng.integers(30, size=ROWS), rng.integers(500, size=ROWS)
    candidates = CandidateSets.everything(PRODUCTS)
    if kind in ("candidates", "unavailable"):
        are_lacking = kind == "unavailable"
        owner, products = np.nonzero(masks != are_lacking)
        starts = np.searchsorted(owner, np.arange(31))
        candidates = CandidateSets(starts, products.astype(np.int32), PRODUCTS, are_lacking)
    else:
        masks, sets = np.ones((1, PRODUCTS), bool), np.zeros(ROWS, np.int64)
    scores = np.where(masks[sets], np.exp(features @ rng.normal(size=(4, PRODUCTS))), 0.0)
    target = scores / scores.sum(axis=1, keepdims=True)
    logging = 0.5 * target + 0.5 * masks[sets] / masks[sets].sum(axis=1, keepdims=True)
    rows = np.arange(ROWS)
    actions = (logging.cumsum(axis=1) <= rng.random((ROWS, 1))).sum(axis=1).clip(max=PRODUCTS - 1)
    log = Log(
        actions=actions,
        propensities=logging[rows, actions],
        rewards=(rng.random(ROWS) < 0.1 + 0.4 * target[rows, actions]).astype(float),
        candidates=candidates,
        candidate_set=sets,
        features=features,
        positions=np.zeros(ROWS, np.int64),
        products=rng.normal(size=(PRODUCTS, 3)),
        user_ids=users if kind == "users" else None,
    )
    return log, target


@pytest.mark.parametrize("kind", ["everything", "candidates", "unavailable", "users"])
def test_values_are_those_of_dense_probabilities(kind: str) -> None:
    log, target = log_of(kind)
    policy = find_class("shared-linucb")(spec_of(log), np.random.default_rng(0))
    policy.fit(log.rows(np.arange(500)))
    policies: dict[str, Any] = {"table": target, "policy": policy}
    found = evaluate(log, policies, estimators=ESTIMATORS, samples=100)
    for name in policies:
        values = [row.value for row in found.results if row.policy == name]
        # Reward models rest on decompositions, whose last digits may be another processor's.
        np.testing.assert_allclose(values, KEPT[kind, name], rtol=1e-10, err_msg=name)
        np.testing.assert_allclose(values[1:3], KEPT[kind, name][1:3], rtol=1e-12, err_msg=name)

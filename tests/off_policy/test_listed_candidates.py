"""Logs of a large catalogue whose rows list their candidates: judged by these lists, with the values of dense rows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zoosim import Context, Distribution, Policy
from zoosim.core.distributions import Distributions, draw_products
from zoosim.core.errors import PolicyError
from zoosim.core.types import FloatArray
from zoosim.logs import candidate_sets
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.off_policy.actions import product_weights
from zoosim.off_policy.actions.products import ESTIMATORS
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.predicted import predict_values
from zoosim.off_policy.targets import products as targets
from zoosim.off_policy.targets.products import PolicyTarget, spec_of
from zoosim.policies.registry import find_class

ROWS, PRODUCTS, CANDIDATES = 2_000, 40, 6


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take 40 products for a large catalogue."""
    monkeypatch.setattr(candidate_sets, "LARGE_CATALOGUE", PRODUCTS - 1)


def listed_log() -> Log:
    """A log whose rows each list 6 of 40 products, chosen by their features; product 39 is never shown."""
    rng = np.random.default_rng(0)
    lists = np.sort(rng.permuted(np.tile(np.arange(PRODUCTS), (ROWS // 2, 1)), axis=1)[:, :CANDIDATES], axis=1)
    sets = rng.integers(len(lists), size=ROWS)
    products, features = rng.normal(size=(PRODUCTS, 3)), rng.normal(size=(20, 3))[rng.integers(20, size=ROWS)]
    weights = np.exp(features[:, None] * products[lists[sets]]).sum(axis=2)
    weights[lists[sets] == PRODUCTS - 1] = 1e-9
    propensities = weights / weights.sum(axis=1, keepdims=True)
    places = (propensities.cumsum(axis=1) <= rng.random((ROWS, 1))).sum(axis=1).clip(max=CANDIDATES - 1)
    rows = np.arange(ROWS)
    rates = 0.1 + 0.2 * (products[lists[sets][rows, places], 0] > 0)
    return Log(
        actions=lists[sets][rows, places],
        propensities=propensities[rows, places],
        rewards=(rng.random(ROWS) < rates).astype(float),
        candidates=CandidateSets(np.arange(len(lists) + 1) * CANDIDATES, lists.ravel().astype(np.int32), PRODUCTS),
        candidate_set=sets,
        features=features,
        positions=np.zeros(ROWS, np.int64),
        products=products,
        ids=1_000 + np.arange(PRODUCTS),
    )


class Likes(Policy):
    """Prefers products by one feature."""

    def select_action(self, context: Context) -> int:
        return int(self.rng.choice(len(context.available), p=self.weights(context)))

    def update(self, *_: Any, **__: Any) -> None:
        raise AssertionError("a policy that is judged learns nothing")

    def weights(self, context: Context) -> FloatArray:
        weights = np.exp(context.products[:, 1]) * context.available
        return np.asarray(weights / weights.sum())

    def propensities(self, context: Context) -> FloatArray | Distribution:
        return self.weights(context)


class LikesSome(Likes):
    """As `Likes`, in ids and probabilities of what may be shown, from the last one on."""

    def propensities(self, context: Context) -> Distribution:
        some = np.flatnonzero(context.available)[::-1]
        return Distribution(context.product_ids[some], self.weights(context)[some])


def policies_of(log: Log) -> dict[str, Any]:
    """Return policies of each form that a log is judged by."""
    weights = np.exp(log.products[:, 1]) * log.available(0, ROWS)
    table = weights / weights.sum(axis=1, keepdims=True)

    def by_candidates(log: Log, start: int, stop: int) -> FloatArray:
        owner, products = log.candidate_lists(start, stop).flat()
        return np.asarray(table[start:stop][owner, products])

    kernels = {name: find_class(name)(spec_of(log), np.random.default_rng(0)) for name in ("random", "shared-linucb")}
    kernels["shared-linucb"].fit(log)
    own = {cls.__name__: cls(spec_of(log), np.random.default_rng(0)) for cls in (Likes, LikesSome)}
    functions = {"function": lambda log, start, stop: table[start:stop], "by candidates": by_candidates}
    return {"table": table, **functions, **kernels, **own}


def figures(log: Log, policies: Mapping[str, Any]) -> dict[tuple[str, str], list[float]]:
    found = evaluate(log, policies, estimators=ESTIMATORS, samples=100)
    return {(row.policy, row.estimator): [row.value, row.low, row.high, row.ess] for row in found.results}  # type: ignore[list-item]


def test_lists_give_the_values_of_dense_rows(lists: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all estimators, within 1e-12; products that no row shows are predicted by what all share."""
    log = listed_log()
    policies = policies_of(log)
    assert log.candidates.are_listed
    by_lists = figures(log, policies)
    predicted = predict_values({"Likes": policies["Likes"]}, log)
    monkeypatch.setattr(candidate_sets, "LARGE_CATALOGUE", PRODUCTS)
    dense = figures(log, policies)
    assert by_lists.keys() == dense.keys()
    for key, expected in dense.items():
        np.testing.assert_allclose(by_lists[key], expected, rtol=1e-12, atol=1e-12, err_msg=f"{key}")
    assert predicted == pytest.approx(predict_values({"Likes": policies["Likes"]}, log), rel=1e-12)
    for name in ("function", "by candidates", "Likes", "LikesSome"):
        assert dense[name, "dr"] == pytest.approx(dense["table", "dr"], rel=1e-9)


def listener() -> tuple[list[Context], type[Likes]]:
    """Return a list, and a class of policies that enter in it what they are asked about."""
    asked: list[Context] = []

    class Asked(Likes):
        def propensities(self, context: Context) -> FloatArray:
            asked.append(context)
            return self.weights(context)

    return asked, Asked


def test_a_policy_is_asked_about_the_candidates_of_its_row_alone(lists: None) -> None:
    asked, asked_policy = listener()
    log = listed_log()
    found = PolicyTarget(asked_policy(spec_of(log), np.random.default_rng(0)), log).distributions(log, 0, ROWS)
    assert found.matrix(PRODUCTS)[~log.available(0, ROWS)].sum() == 0.0
    for context, row in zip(asked[:5], range(5), strict=True):
        expected = log.candidate_lists(row, row + 1).of(0)
        np.testing.assert_array_equal(context.product_ids, log.product_ids[expected])
        np.testing.assert_array_equal(context.products, log.products[expected])
        assert context.available.all()


def test_a_policy_is_asked_again_where_too_many_contexts_came_between(
    lists: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20 rows that differ, 3 are remembered at most."""
    monkeypatch.setattr(targets, "MOST_CONTEXTS", 3)
    asked, asked_policy = listener()
    log = listed_log()
    target = PolicyTarget(asked_policy(spec_of(log), np.random.default_rng(0)), log)
    for _ in range(2):
        target.distributions(log, 0, 20)
    assert len(asked) >= 37


def test_rows_with_long_lists_are_asked_in_small_blocks(lists: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second row may show all 40 products, the others 6: most sets are short, and most probabilities are not."""
    monkeypatch.setattr(product_weights, "MOST_CELLS", 400)
    log = listed_log()
    sets, is_long = log.candidates, np.arange(ROWS) % 2 == 1
    listed: Any = np.append(sets.products, np.arange(PRODUCTS, dtype=np.int32))
    uneven = CandidateSets(np.append(sets.starts, len(listed)), listed, PRODUCTS)
    log = replace(log, candidates=uneven, candidate_set=np.where(is_long, len(sets), log.candidate_set))
    asked = []

    def uniform(log: Log, start: int, stop: int) -> FloatArray:
        lengths = log.candidate_lists(start, stop).lengths
        asked.append((start, stop, lengths.sum()))
        return np.asarray(1.0 / np.repeat(lengths, lengths))

    weights = product_weights.weigh_and_predict(log, targets.FunctionTarget(uniform), [])[0].weights
    np.testing.assert_allclose(weights * log.propensities, np.where(is_long, 1 / PRODUCTS, 1 / CANDIDATES))
    assert max(cells for _, _, cells in asked) <= 400
    assert sum(stop - start for start, stop, _ in asked) == ROWS + 1  # the first row tells of the shape


def test_what_lies_beside_the_candidates_is_refused(lists: None) -> None:
    log = listed_log()
    row = log.candidate_lists(0, 1).of(0)
    outside = int(np.setdiff1d(np.arange(PRODUCTS), row)[0])
    table = log.available(0, ROWS) / CANDIDATES
    table[0] = np.eye(PRODUCTS)[outside]
    message = rf"policy p: row 0: gives action {outside} a probability, which is not among the candidates"
    for given in (table, lambda log, start, stop: table[start:stop]):
        with pytest.raises(PolicyError, match=message):
            evaluate(log, {"p": given})
    for alone in (np.full(PRODUCTS, 1 / PRODUCTS), np.eye(PRODUCTS)[outside]):
        with pytest.raises(PolicyError, match=r"gives action \d+ a probability, which is not among the candidates"):
            evaluate(log, {"p": alone})
    with pytest.raises(PolicyError, match=r"gives probabilities of shape \(7,\), expected \(2000, 40\)"):
        evaluate(log, {"p": lambda log, start, stop: np.ones(7)})
    with pytest.raises(PolicyError, match="row 0: probabilities add up to 3, expected 1"):
        evaluate(log, {"p": lambda log, start, stop: np.full(CANDIDATES * (stop - start), 0.5)})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Distribution(np.array([1_001, 7]), np.array([0.5, 0.5])), "got product 7, which is not among the candidates"),
        (Distribution(np.array([1_001, 1_001]), np.array([0.5, 0.5])), "got a product twice in a distribution"),
        (Distribution(np.array([1_001]), np.array([0.5, 0.5])), r"of \(1,\) ids and \(2,\) probabilities"),
        (Distribution(np.array([1_001]), np.array([0.5])), "probabilities add up to 0.5, expected 1"),
    ],
)
def test_a_distribution_over_what_is_no_part_of_the_candidates_is_refused(answer: Distribution, words: str) -> None:
    class Answers(Likes):
        def propensities(self, context: Context) -> Distribution:
            return answer

    log = replace(listed_log(), candidates=CandidateSets.everything(PRODUCTS), candidate_set=np.zeros(ROWS, np.int64))
    with pytest.raises(PolicyError, match=f"^policy p: row 0: .*{words}"):
        evaluate(log, {"p": Answers(spec_of(log), np.random.default_rng(0))})


def test_rows_that_are_alike_share_their_probabilities() -> None:
    dense = Distributions.dense(np.array([[0.2, 0.8, 0.0], [0.0, 0.5, 0.5]])).rows(np.array([1, 0, 1]))
    products = np.array([2, 1, 0])
    listed = Distributions.over(
        products, np.array([0, 1, 0]), np.array([2, 2, 2]), np.array([0.5, 0.5, 0.8, 0.2, 0.5, 0.5])
    )
    np.testing.assert_array_equal(dense.matrix(3), listed.matrix(3))
    assert dense.flat().tolist() == [0.0, 0.5, 0.5, 0.2, 0.8, 0.0, 0.0, 0.5, 0.5]
    drawn = np.empty((3, 2), np.int64)
    draw_products(dense, np.array([0.1, 0.1, 0.999]), drawn)
    assert drawn.tolist() == [[1, 2], [0, 1], [2, 1]]
    draw_products(listed, np.array([0.1, 0.1, 0.999]), drawn)
    assert drawn.tolist() == [[2, 1], [1, 1], [1, 2]]

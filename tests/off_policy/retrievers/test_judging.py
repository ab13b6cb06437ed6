"""What later rows say of a retriever and of plain rules, against plain computations."""

import numpy as np

from tests.retrieval.towers.shop import draw_shop
from zoosim.off_policy.retrievers.judging import LaterRows, figures, row_propensities
from zoosim.off_policy.retrievers.rules import PRIOR_CLICKS, PRIOR_ROWS, category_rule, popularity


def test_recall_and_loss_of_vectors_are_those_of_a_plain_computation() -> None:
    shop = draw_shop(n=400)
    rows = shop.rows
    propensities = np.random.default_rng(0).uniform(0.1, 1.0, 400)
    judge = LaterRows(rows, propensities, 10, rng=np.random.default_rng(0))
    vectors = np.column_stack([shop.effects, shop.biases]).astype(np.float32)
    queries = np.column_stack([shop.tastes, np.ones(400)]).astype(np.float32)
    judged = judge.judge_vectors(vectors, queries, np.zeros(1))
    log_odds = queries.astype(float) @ vectors.T.astype(float)
    clicks = np.flatnonzero(rows.clicked)
    best = np.argsort(-log_odds[clicks], axis=1)[:, :10]
    hits = (best == rows.product[clicks][:, None]).any(axis=1)
    assert len(judge.clicks) == len(clicks)
    np.testing.assert_allclose(judged.recall, np.average(hits, weights=1 / propensities[clicks]))
    chances = 1 / (1 + np.exp(-log_odds[np.arange(400), rows.product]))
    loss = -np.log(np.where(rows.clicked > 0, chances, 1 - chances)).mean()
    np.testing.assert_allclose(judged.log_loss, loss)
    assert judged.low < judged.recall < judged.high


def test_the_truth_beats_the_rules_and_the_category_rule_popularity() -> None:
    shop = draw_shop(n=30_000, own=0.0)
    rows = shop.rows
    # Visitors of the rules are of two kinds, by their first taste, and products of four.
    kinds = (rows.visitors[:, :1] > 0).astype(float)
    categories = 2 * (shop.effects[:, 0] > 0) + (shop.effects[:, 1] > 0)
    of_kinds = rows._replace(visitors=kinds)
    judge = LaterRows(of_kinds, None, 15, rng=np.random.default_rng(0))
    vectors = np.column_stack([shop.effects, shop.biases]).astype(np.float32)
    queries = np.column_stack([shop.tastes, np.ones(len(shop.tastes))]).astype(np.float32)
    truth = judge.judge_vectors(vectors, queries, np.zeros(1))
    rule = judge.judge_rule(category_rule(of_kinds, categories))
    popular = judge.judge_rule(popularity(of_kinds))
    assert truth.recall > rule.high > rule.recall > popular.high
    assert truth.log_loss < rule.log_loss < popular.log_loss
    assert [way["name"] for way in figures([truth, rule, popular])] == ["retriever", "category rule", "popularity"]


def test_a_rule_multiplies_rates_of_cells_with_what_products_do_beyond_them() -> None:
    rows = draw_shop(n=2_000).rows._replace(visitors=np.repeat([[0.0], [1.0]], 1_000, axis=0))
    categories = np.arange(rows.n_products) % 3
    rule = category_rule(rows, categories)
    segment = rule.segments.assign(np.array([[1.0]]))[0]
    in_cell = (rows.visitors[rows.visit, 0] == 1.0) & (categories[rows.product] == 2)
    mean = rows.clicked.mean()
    rate = (rows.clicked[in_cell].sum() + PRIOR_ROWS * mean) / (in_cell.sum() + PRIOR_ROWS)
    np.testing.assert_allclose(rule.rates[segment, 2], rate)
    of_product = rows.product == 5
    expected = rule.rates[rule.segments.labels[rows.visit[of_product]], 2].sum()
    factor = (rows.clicked[of_product].sum() + PRIOR_CLICKS) / (expected + PRIOR_CLICKS)
    np.testing.assert_allclose(rule.scores(segment)[5], rate * factor)
    np.testing.assert_allclose(rule.chances(np.array([segment]), np.array([5])), [rate * factor])
    # Never shown: as its category.
    assert rule.factors[-1] == 1.0


def test_propensities_of_rankings_or_unknown_ones_weigh_nothing() -> None:
    visit = np.arange(2)
    assert row_propensities(np.full((2, 3), 0.5), visit) is None
    assert row_propensities(np.array([0.5, np.nan]), visit) is None
    np.testing.assert_array_equal(row_propensities(np.array([0.5, 0.2]), visit), [0.5, 0.2])

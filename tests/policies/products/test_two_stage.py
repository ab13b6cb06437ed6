"""Two stages: what the posterior retrieves, probabilities that are exact, and products that come and go."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.arena.loop import play
from zoosim.arena.recording import record_frames, write_records
from zoosim.core.errors import DataError, PolicyError
from zoosim.core.types import POOL, Context, PolicySpec, RetrievedDecision, frozen
from zoosim.off_policy import read_log
from zoosim.policies.choice import DRAWS
from zoosim.policies.products.two_stage import FixedRetriever, TwoStage
from zoosim.policies.requests import dense_propensities
from zoosim.retrieval import Exact
from zoosim.worlds.catalogue.world import Catalogue

N_PRODUCTS = 400
SPEC = PolicySpec(user_dim=2, product_dim=3)


def products(count: int = N_PRODUCTS, seed: int = 1) -> np.ndarray:
    """Return features of products `(count, 3)`."""
    return frozen(np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32))


FEATURES = products()
IDS = frozen(np.arange(N_PRODUCTS))
ALL = frozen(np.ones(N_PRODUCTS, bool))


def request(user: Any = (0.5, -1.0), **changes: Any) -> Context:
    """Return a request for all products."""
    fields = {"user": frozen(np.array(user)), "product_ids": IDS, "products": FEATURES, "available": ALL}
    return Context(user_id=0, **{**fields, **changes})


def taught(cls: type[TwoStage] = TwoStage, visits: int = 300, **params: Any) -> TwoStage:
    """Return a policy that has learned from products shown at random."""
    policy = cls(SPEC, np.random.default_rng(0), **params)
    rng = np.random.default_rng(2)
    for _ in range(visits):
        user = rng.normal(size=2)
        place = int(rng.integers(N_PRODUCTS))
        reward = float(rng.random() < 1 / (1 + np.exp(-FEATURES[place, :2] @ user - FEATURES[place, 2])))
        policy.update(request(user), place, reward)
    return policy


def posterior(policy: TwoStage, user: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of the weights of products as a visitor sees them, by plain matrix algebra."""
    left = np.append(1.0, user)
    weights = policy.ridge.theta[0].reshape(3, 4)
    inverse = policy.ridge.inverse[0][: weights.size]
    mean = left @ weights
    spread = np.einsum("a,aibj,b->ij", left, inverse.reshape(3, 4, 3, 4), left)
    return mean[1:], spread[1:, 1:]


def test_candidates_are_those_that_the_posteriors_mean_scores_highest() -> None:
    policy = taught(candidates=20, explore=0.0)
    mean, _ = posterior(policy, (0.5, -1.0))
    expected = np.argsort(-(FEATURES @ mean), kind="stable")[:20]
    decision = policy.decide(request())
    assert decision.candidates.tolist() == expected.tolist()
    assert policy.recommend(request()) == expected[0]


def test_the_ranker_draws_from_the_posterior() -> None:
    """With all products as candidates: shares of 256 draws against 20,000 plain draws of the same Gaussian."""
    policy = taught(candidates=N_PRODUCTS, explore=0.0, alpha=1.0)
    mean, spread = posterior(policy, (0.5, -1.0))
    draws = np.random.default_rng(3).multivariate_normal(mean, spread, 20_000)
    expected = np.bincount((FEATURES @ draws.T).argmax(axis=0), minlength=N_PRODUCTS) / 20_000
    chances = dense_propensities(policy, request())
    likely = expected > 0.05
    assert likely.any()
    np.testing.assert_allclose(chances[likely], expected[likely], atol=4 * np.sqrt(0.25 / DRAWS))


def test_each_draw_may_retrieve_its_own_best_product() -> None:
    """By draws, probabilities are those of all products as candidates: each draw finds its best one either way."""
    whole = dense_propensities(taught(candidates=N_PRODUCTS, explore=0.1), request())
    by_draws = dense_propensities(taught(retrieval="draws", explore=0.1), request())
    np.testing.assert_array_equal(by_draws, whole)


@pytest.mark.parametrize("retrieval", ["mean", "draws"])
def test_decisions_follow_the_probabilities_and_say_where_candidates_came_from(retrieval: str) -> None:
    """Each of 2,560 evenly spaced draws once: counts are the probabilities, to the number."""
    policy = taught(candidates=10, explore=0.1, retrieval=retrieval)
    decisions = [policy.decide(request(), (number + 0.5) / 2_560) for number in range(2_560)]
    chances = dense_propensities(policy, request())
    from_pool = [each for each in decisions if each.source.name == POOL]
    assert len(from_pool) == 256
    for each in from_pool:
        assert each.candidates.tolist() == [each.product_id]
        assert each.source.propensity * each.propensity == pytest.approx(0.1 / N_PRODUCTS)
    retrieved = [each for each in decisions if each.source.name != POOL]
    counts = np.bincount([each.product_id for each in retrieved], minlength=N_PRODUCTS)
    np.testing.assert_allclose(counts / 2_560, chances - 0.1 / N_PRODUCTS, atol=1.5 / 2_560)
    for each in decisions:
        assert each.marginal_propensity == pytest.approx(chances[each.product_id])
    assert {each.source.propensity for each in retrieved} == {0.9}
    assert len({each.source.version for each in retrieved}) == 1
    policy.update(request(), 3, 1.0)
    assert policy.decide(request(), 0.9).source.version != retrieved[0].source.version


def test_it_decides_alike_with_and_without_propensities() -> None:
    one, other = taught(explore=0.2), taught(explore=0.2)
    for _ in range(50):
        assert one.select_action(request()) == other.decide(request()).product_id


def test_requests_need_no_products_once_there_is_an_index() -> None:
    policy, bare = taught(), taught()
    bare.use_index(Exact(IDS, FEATURES))
    alone = Context(user_id=0, user=np.array([0.5, -1.0]))
    for number in range(20):
        with_products = policy.decide(request())
        without = bare.decide(alone)
        assert without.source == with_products.source
        assert without.product_id == with_products.product_id
        policy.update(request(), with_products.product_id, float(number % 2))
        bare.learn(alone, without.product_id, float(number % 2))
    with pytest.raises(DataError, match="got the id 9999, which the index does not hold"):
        bare.learn(alone, 9_999, 1.0)
    with pytest.raises(PolicyError, match="knows no products; give it an index"):
        taught(visits=0).decide(alone)
    with pytest.raises(PolicyError, match="use_index: got an index of vectors of 2, expected 3"):
        bare.use_index(Exact(IDS, FEATURES[:, :2]))


def test_what_is_gone_is_never_retrieved_and_what_is_new_is_found_at_once() -> None:
    policy = taught(candidates=5, explore=0.5)
    best = policy.recommend(request())
    left = np.delete(np.arange(N_PRODUCTS), best)
    fewer = request(product_ids=IDS[left], products=FEATURES[left], available=ALL[left])
    assert best not in policy.propensities(fewer).ids
    assert all(policy.decide(fewer, (n + 0.5) / 500).product_id != best for n in range(500))
    # A product of a kind that there never was: ten times as far out as any other, where the posterior points.
    mean, _ = posterior(policy, (0.5, -1.0))
    far = frozen(np.vstack([FEATURES, 30 * mean / np.linalg.norm(mean)]).astype(np.float32))
    more = request(product_ids=np.append(IDS, 10_000), products=far, available=np.ones(N_PRODUCTS + 1, bool))
    assert policy.recommend(more) == N_PRODUCTS
    assert policy.decide(more).source.version != policy.decide(fewer).source.version


def test_what_is_out_of_stock_is_not_shown() -> None:
    policy = taught(candidates=5, explore=0.5)
    in_stock = frozen(np.arange(N_PRODUCTS) % 3 == 0)
    assert (dense_propensities(policy, request(available=in_stock))[~in_stock] == 0.0).all()
    shown = {policy.decide(request(available=in_stock), (n + 0.5) / 300).product_id % 3 for n in range(300)}
    assert shown == {0}


def test_a_fixed_retriever_stops_learning() -> None:
    policy = taught(FixedRetriever, trained_on=100, candidates=10, explore=0.0)
    stopped = taught(FixedRetriever, visits=100, trained_on=100, candidates=10, explore=0.0)
    assert policy.decide(request()).candidates.tolist() == stopped.decide(request()).candidates.tolist()
    learning = taught(candidates=10, explore=0.0)
    assert policy.decide(request()).candidates.tolist() != learning.decide(request()).candidates.tolist()
    with pytest.raises(PolicyError, match=r"two-stage-fixed\.retrieval: got draws"):
        taught(FixedRetriever, visits=0, retrieval="draws")


def test_a_saved_state_decides_alike_to_the_bit() -> None:
    policy = taught()
    loaded = TwoStage(SPEC, np.random.default_rng(9))
    loaded.load_state_dict(policy.state_dict())
    for _ in range(20):
        one, other = policy.decide(request()), loaded.decide(request())
        assert one.source == other.source
        np.testing.assert_array_equal(one.propensities, other.propensities)
        assert one.product_id == other.product_id


def test_a_log_holds_candidates_version_and_both_propensities(tmp_path: Path) -> None:
    """500 candidates of 20,000: at most 3 kB a row, in the file and in memory, whatever the catalogue holds."""
    world = Catalogue(0, 200, n_products=20_000, n_users=50)
    policy = TwoStage(world.spec(200), np.random.default_rng(0), explore=0.1)
    path = tmp_path / "log.parquet"
    write_records(path, world, record_frames(world, play(world, policy, 200, logged=True), "two-stage", "1"))
    frame = pl.read_parquet(path)
    from_pool = frame.filter(pl.col("source") == POOL)
    retrieved = frame.filter(pl.col("source") == "posterior-mean")
    assert 5 <= len(from_pool) <= 45
    assert set(from_pool["candidates"].list.len()) == {1}
    assert set(retrieved["candidates"].list.len()) == {500}
    assert path.stat().st_size / 200 < 3_000
    assert frame.estimated_size() / 200 < 3_000
    joint = frame["source_propensity"] * frame["propensity"]
    assert (joint <= frame["marginal_propensity"] + 1e-12).all()
    log = read_log(path)
    assert log.marginals is not None
    np.testing.assert_allclose(log.marginals, frame["marginal_propensity"])
    assert log.candidates.products.nbytes < 200 * 2_100
    again = TwoStage(world.spec(200), np.random.default_rng(0), explore=0.1)
    rows = [decision_of(again, world, step) for step in range(20)]
    assert [row.product_id for row in rows] == frame["product_id"][:20].to_list()
    assert [row.source.version for row in rows] == frame["source_version"][:20].to_list()


def decision_of(policy: TwoStage, world: Catalogue, step: int) -> RetrievedDecision:
    """Play a visit."""
    visit = world.arrive(step)
    context = world.context(visit)
    decision = policy.decide(context)
    policy.update(context, decision.product_id, world.serve(visit, decision.product_id).reward)
    return decision


def test_what_is_no_request_is_refused() -> None:
    policy = taught(visits=0)
    with pytest.raises(PolicyError, match="user: got shape"):
        policy.decide(Context(user_id=0, user=np.zeros(3)))
    with pytest.raises(PolicyError, match="products: got shape"):
        policy.decide(request(products=FEATURES[:, :2]))
    with pytest.raises(PolicyError, match=r"draw: got 1\.5"):
        policy.decide(request(), 1.5)
    with pytest.raises(PolicyError, match="retrieves by the features of products, and they have none"):
        TwoStage(PolicySpec(user_dim=2, product_dim=0), np.random.default_rng(0))
    assert zoosim.Distribution(IDS[:1], np.ones(1)).spread == 0.0


def test_a_refused_request_changes_nothing() -> None:
    policy = taught()
    before = dense_propensities(policy, request())
    broken = np.array(FEATURES[:2])
    broken[1, 0] = np.nan
    with pytest.raises(DataError, match="finite"):
        policy.propensities(request(product_ids=np.array([3, 900]), products=broken, available=np.ones(2, bool)))
    np.testing.assert_array_equal(dense_propensities(policy, request()), before)


@pytest.mark.parametrize("are_lasting", [True, False])
def test_what_a_request_hides_is_hidden_in_that_request_alone(are_lasting: bool) -> None:
    policy = taught()
    policy.use_index(Exact(IDS, FEATURES))
    hidden = int(policy.decide(Context(user_id=0, user=frozen(np.array([0.5, -1.0])))).candidates[0])
    arrays = [IDS, FEATURES, frozen(np.not_equal(IDS, hidden))]
    if not are_lasting:
        arrays = [np.array(array) for array in arrays]
    policy.propensities(request(product_ids=arrays[0], products=arrays[1], available=arrays[2]))
    bare = policy.decide(Context(user_id=0, user=frozen(np.array([0.5, -1.0]))))
    assert hidden in bare.candidates


def test_the_same_arrays_hide_the_same_products_after_a_request_without_any() -> None:
    policy = taught(candidates=5, explore=0.5)
    in_stock = frozen(np.arange(N_PRODUCTS) % 3 == 0)
    policy.propensities(request(available=in_stock))
    policy.decide(Context(user_id=0, user=frozen(np.array([0.5, -1.0]))))
    assert (dense_propensities(policy, request(available=in_stock))[~in_stock] == 0.0).all()


def test_a_product_of_the_index_is_learned_after_a_request_that_brought_others() -> None:
    policy, other = taught(), taught()
    alone = Context(user_id=0, user=frozen(np.array([0.5, -1.0])))
    for each in (policy, other):
        each.use_index(Exact(IDS, FEATURES))
    policy.propensities(request(product_ids=IDS[:10], products=frozen(-FEATURES[:10]), available=ALL[:10]))
    for each in (policy, other):
        each.learn(alone, 7, 1.0)
    np.testing.assert_array_equal(policy.ridge.theta, other.ridge.theta)


@pytest.mark.parametrize("retrieval", ["mean", "draws"])
def test_what_a_request_bars_is_neither_retrieved_nor_drawn(retrieval: str) -> None:
    """It decides as if those products were out of stock, and still finds as many as the page has places."""
    policy = taught(candidates=10, explore=0.1, retrieval=retrieval)
    policy.use_index(Exact(IDS, FEATURES))
    alone = Context(user_id=0, user=np.array([0.5, -1.0]))
    free = policy.retrieve(alone).candidates
    closing = Context(**alone, barred=np.append(free, 9_999), count=30)
    found = policy.retrieve(closing)
    assert len(found.candidates) == len(set(found.candidates.tolist())) == 30
    assert not np.isin(found.candidates, free).any()
    assert found.propensities.sum() == pytest.approx(1.0)
    for number in range(100):
        assert policy.decide(closing, (number + 0.5) / 100).product_id not in free
    answer = policy.propensities(closing)
    expected = policy.propensities(request(available=frozen(np.isin(IDS, free, invert=True))))
    assert answer.ids.tolist() == expected.ids.tolist()
    np.testing.assert_array_equal(answer.probabilities, expected.probabilities)
    assert policy.retrieve(alone).candidates.tolist() == free.tolist()


@pytest.mark.parametrize("retrieval", ["mean", "draws"])
def test_where_nothing_is_found_a_line_says_so(retrieval: str) -> None:
    policy = taught(retrieval=retrieval, explore=0.5)
    policy.use_index(Exact(IDS, FEATURES))
    nothing = Context(user_id=0, user=np.array([0.5, -1.0]), barred=IDS)
    for ask in (policy.retrieve, policy.decide, policy.propensities, policy.recommend, policy.select_action):
        for _ in range(3):  # a draw may be of either stage
            with pytest.raises(PolicyError, match="candidates: got none, expected a product that may be shown"):
                ask(nothing)
    policy.use_index(Exact(IDS[:0], FEATURES[:0]))
    with pytest.raises(PolicyError, match="candidates: got none"):
        policy.retrieve(Context(user_id=0, user=np.array([0.5, -1.0])))

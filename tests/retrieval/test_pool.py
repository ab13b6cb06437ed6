"""Candidates of several sources are merged by their rules, as a plain second computation has it, and without chance."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.catalogue import draw_vectors
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import NOBODY, Context, IntArray, PolicySpec
from zoosim.policies.registry import find_class
from zoosim.policies.requests import dense_propensities
from zoosim.retrieval import CandidatePool, Candidates, Exact, NewArrivals, PoolCap, Popular, Retrieved, Source

IDS = st.lists(st.integers(0, 25), max_size=12, unique=True)


class Listed(Source):
    """Proposes what it was told."""

    def __init__(self, name: str, ids: list[int], count: int) -> None:
        super().__init__(name, count)
        self._ids = np.array(ids, np.int64)

    @property
    def version(self) -> str:
        return str(self._ids.tolist())

    def propose(self, query: Any, now: float) -> IntArray:
        return self._ids


def merge_plainly(
    lists: list[tuple[list[int], int]],
    most: int,
    always: list[int],
    never: list[int],
    brands: list[dict[int, int]],
    caps: list[int],
) -> list[tuple[int, int]]:
    """Return candidates with the number of their source, by the rules as they are written."""

    def is_full(product: int, taken: list[tuple[int, int]]) -> bool:
        for brand_of, cap in zip(brands, caps, strict=True):
            same = [other for other, _ in taken if product in brand_of and brand_of.get(other) == brand_of[product]]
            if len(same) >= cap:
                return True
        return False

    taken = [(product, 0) for product in always if product not in never]
    for number, (products, count) in enumerate(lists, start=1):
        while len(taken) < most and sum(source == number for _, source in taken) < count:
            there = {product for product, _ in taken}
            free = [p for p in products if p not in there and p not in never and not is_full(p, taken)]
            if not free:
                break
            taken.append((free[0], number))
    return taken


@settings(max_examples=300, deadline=None)
@given(
    lists=st.lists(st.tuples(IDS, st.integers(1, 6)), max_size=4),
    room=st.integers(1, 12),
    always=st.lists(st.integers(0, 25), max_size=4, unique=True),
    never=IDS,
    unavailable=IDS,
    brands=st.lists(st.dictionaries(st.integers(0, 25), st.integers(0, 3), min_size=1), max_size=2),
    caps=st.lists(st.integers(1, 3), min_size=2, max_size=2),
)
def test_merging_follows_the_rules_as_they_are_written(
    lists: list[tuple[list[int], int]],
    room: int,
    always: list[int],
    never: list[int],
    unavailable: list[int],
    brands: list[dict[int, int]],
    caps: list[int],
) -> None:
    most = len(always) + room
    pool = CandidatePool(
        [Listed(f"source {number}", products, count) for number, (products, count) in enumerate(lists)],
        most=most,
        always=always,
        never=never,
        caps=[PoolCap(list(of), list(of.values()), cap) for of, cap in zip(brands, caps, strict=False)],
    )
    candidates = pool.candidates(None, unavailable=unavailable)
    merged = list(zip(candidates.ids.tolist(), candidates.source.tolist(), strict=True))
    assert merged == merge_plainly(lists, most, always, never + unavailable, brands, caps[: len(brands)])


def shop_pool(**rules: Any) -> CandidatePool:
    ids, vectors = draw_vectors(300, 5)
    order = np.argsort(ids)
    ids = ids[order]
    vectors = vectors[order]
    sources = [
        Retrieved(Exact(ids, vectors), 20),
        Popular(ids, np.arange(300) % 50, 5),
        NewArrivals(ids, np.arange(300) * 86_400.0, 7, 4),
    ]
    return CandidatePool(sources, most=30, **rules)


def test_each_source_brings_what_it_says() -> None:
    pool = shop_pool()
    query = np.random.default_rng(0).normal(size=5)
    now = 250.5 * 86_400
    candidates = pool.candidates(query, now=now)
    index = pool.sources[0].index  # type: ignore[attr-defined]
    np.testing.assert_array_equal(candidates.of("retrieval"), index.search(query, 20).ids[0])
    there = set(candidates.of("retrieval").tolist())
    # Numbers go from 0 to 49 again and again, so the best are those at 49, 99, 149, ...; then those at 48, ...
    popular = [index.ids[place] for place in (49, 99, 149, 199, 249, 299, 48, 98)]
    np.testing.assert_array_equal(candidates.of("popular"), [p for p in popular if p not in there][:5])
    there |= set(candidates.of("popular").tolist())
    new = [index.ids[place] for place in (250, 249, 248, 247, 246, 245, 244)]
    np.testing.assert_array_equal(candidates.of("new"), [p for p in new if p not in there][:4])
    assert candidates.names == ("always", "retrieval", "popular", "new")


def test_what_came_too_long_ago_or_is_yet_to_come_is_not_new() -> None:
    source = NewArrivals([3, 5, 7, 9], [100.0, 200.0, 200.0, 300.0], 1 / 864, 10)  # 100 seconds
    np.testing.assert_array_equal(source.propose(None, 200.0), [5, 7])  # 3 came 100 seconds ago, 9 is yet to come
    np.testing.assert_array_equal(source.propose(None, 199.0), [3])
    np.testing.assert_array_equal(source.propose(None, 50.0), [])


def test_probabilities_over_the_merged_candidates_are_those_of_the_whole_decision() -> None:
    # Retrieved anew for each of many decisions, the candidates are the same, so choices come as often as is said.
    pool = shop_pool(always=[1_000])
    query = np.random.default_rng(1).normal(size=5)
    policy = find_class("greedy")(
        PolicySpec(user_dim=5, product_dim=3, n_users=1, steps=100), np.random.default_rng(2), epsilon=0.5
    )
    probabilities = dense_propensities(policy, context_of(pool.candidates(query), query))
    np.testing.assert_allclose(probabilities.sum(), 1.0)
    n = 1_500
    chosen = Counter[int]()
    for _ in range(n):
        candidates = pool.candidates(query)
        chosen[int(candidates.ids[policy.select_action(context_of(candidates, query))])] += 1
    for product, probability in zip(pool.candidates(query).ids.tolist(), probabilities, strict=True):
        error = np.sqrt(probability * (1 - probability) / n)
        assert abs(chosen[product] / n - probability) <= 4.5 * error


def context_of(candidates: Candidates, query: np.ndarray) -> Context:
    """Return a request with candidates, each with features that follow from its id."""
    features = np.stack([np.sin(candidates.ids * k) for k in (1.0, 2.0, 3.0)], axis=1)
    return Context(
        user_id=NOBODY,
        user=query,
        product_ids=candidates.ids,
        products=features,
        available=np.ones(len(candidates.ids), bool),
    )


def test_the_version_names_sources_and_rules() -> None:
    versions = {
        shop_pool().version,
        shop_pool(always=[3]).version,
        shop_pool(never=[3]).version,
        shop_pool(caps=[PoolCap([1, 2], ["a", "b"], 1)]).version,
        shop_pool(caps=[PoolCap([1, 2], ["a", "b"], 2)]).version,
    }
    assert len(versions) == 5
    assert shop_pool().version == shop_pool().version
    assert shop_pool(never=[4, 3]).version == shop_pool(never=[3, 4]).version
    assert shop_pool().source[:3] == ("pool", shop_pool().version, 1.0)


def test_rules_that_cannot_hold_are_one_line() -> None:
    with pytest.raises(ConfigError, match="sources: got the name 'popular' twice"):
        CandidatePool([Popular([1], [1], 1), Popular([2], [1], 1)])
    with pytest.raises(ConfigError, match="expected at least as many as always"):
        CandidatePool([], most=1, always=[1, 2])
    with pytest.raises(DataError, match="never: got the id 3 twice"):
        CandidatePool([], never=[3, 3])
    with pytest.raises(DataError, match="groups: got 1, expected one per id"):
        PoolCap([1, 2], ["a"], 1)
    with pytest.raises(DataError, match="expected as many numbers"):
        Popular([1, 2], [1.0], 1)
    with pytest.raises(DataError, match="expected finite ones"):
        NewArrivals([1], [np.nan], 1, 1)
    with pytest.raises(ConfigError, match="days: got 0"):
        NewArrivals([1], [1.0], 0, 1)


@pytest.mark.parametrize("groups", [["a", None, None, "a"], [1.0, np.nan, np.nan, 1.0]])
def test_products_without_a_group_are_not_capped(groups: list[Any]) -> None:
    cap = PoolCap([1, 2, 3, 4], groups, 1)
    assert cap.over(np.array([1, 2, 3, 4])).groups.tolist() == [0, -1, -1, 0]

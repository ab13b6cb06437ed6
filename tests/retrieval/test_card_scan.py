"""On a graphics card the exact search finds what it finds on the processor, to the bit, whatever the card rounds."""

from typing import Any

import numpy as np
import pytest

from tests.retrieval.catalogue import draw_vectors
from zoosim.core.devices import find_cards
from zoosim.core.errors import ConfigError
from zoosim.retrieval import Exact

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
card_scan = pytest.importorskip("zoosim.retrieval.card_scan")

CARDS = find_cards()
DEVICES = [
    "cpu:0",
    *(
        pytest.param(each, marks=pytest.mark.skipif(each not in CARDS, reason=f"torch finds no {each}"))
        for each in ("cuda", "mps")
    ),
]
"""torch also calls the processor "cpu:0", a name that `Exact` does not take: for the tests of this path."""


def on(device: str, ids: Any, vectors: Any) -> Exact:
    index = Exact(ids, vectors)
    index._card = card_scan.CardScan(device)
    return index


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("at_once", [card_scan.LARGEST_PASS, 5_000])
def test_the_same_is_found_under_any_mask(
    device: str, share: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_scan, "LARGEST_PASS", at_once)
    ids, vectors = draw_vectors(5_000, 33)
    rng = np.random.default_rng(1)
    mask = rng.random(5_000) < share if share < 1.0 else None
    queries = rng.normal(size=(8, 33))
    queries[3] = vectors[0]
    queries[4] = 0.0
    for k in (1, 100, 5_000):
        expected = Exact(ids, vectors).search(queries, k, mask)
        found = on(device, ids, vectors).search(queries, k, mask)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("step", [1, 16])
def test_the_same_is_found_where_few_pieces_hold_the_best(device: str, step: int) -> None:
    """The threshold is taken from the largest scores of pieces: here some hold several of the best, or none allowed."""
    vectors = draw_vectors(5_000, 8)[1]
    vectors[1_000 : 1_000 + 200 * step : step] += 50.0
    queries = np.stack([np.ones(8), -np.ones(8), vectors[7]])
    mask = np.zeros(5_000, bool)
    mask[900:1_150] = True
    for allowed in (None, mask):
        expected = Exact(np.arange(5_000), vectors).search(queries, 100, allowed)
        found = on(device, np.arange(5_000), vectors).search(queries, 100, allowed)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.scores, expected.scores)


def test_all_products_tie_and_no_query_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_scan, "MOST_FOUND", 2_000)
    ids, vectors = draw_vectors(1_000, 4)
    for count in (0, 5):
        expected = Exact(ids, vectors).search(np.zeros((count, 4)), 3)
        found = on("cpu:0", ids, vectors).search(np.zeros((count, 4)), 3)
        np.testing.assert_array_equal(found.ids, expected.ids)
        assert found.scores.shape == expected.scores.shape


@pytest.mark.parametrize("device", DEVICES)
def test_products_that_32_bits_cannot_tell_apart_are_told_apart(device: str) -> None:
    """The best of 3,000 products whose scores differ by less than 32 bits hold: the card alone would rank others."""
    rng = np.random.default_rng(2)
    vectors = np.ones((3_000, 16), np.float32) + 2.0**-20 * rng.integers(-8, 9, (3_000, 16)).astype(np.float32)
    query = 1.0 + 1e-7 * rng.normal(size=16)
    ids = rng.permutation(3_000)
    expected = Exact(ids, vectors).search(query, 20)
    in_32_bits = torch.from_numpy(vectors) @ torch.from_numpy(query.astype(np.float32))
    assert not np.array_equal(ids[in_32_bits.topk(20).indices.numpy()], expected.ids[0])
    np.testing.assert_array_equal(on(device, ids, vectors).search(query, 20).ids, expected.ids)


@pytest.mark.parametrize("size", [1e-30, 1e-4, 1e9])
@pytest.mark.parametrize("scale", [1.0, 1e8, 1e-200])
def test_numbers_may_be_of_any_size(size: float, scale: float) -> None:
    rng = np.random.default_rng(3)
    vectors = (size * rng.uniform(-1, 1, size=(500, 8))).astype(np.float32)
    vectors[::3, 1:] = 0
    query = scale * rng.normal(size=8)
    expected = Exact(np.arange(500), vectors).search(query, 20)
    np.testing.assert_array_equal(on("cpu:0", np.arange(500), vectors).search(query, 20).ids, expected.ids)


def test_fewer_bits_find_the_same() -> None:
    ids, vectors = draw_vectors(2_000, 16)
    query = np.random.default_rng(4).normal(size=16)
    expected = Exact(ids, vectors).search(query, 50)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        np.testing.assert_array_equal(on("cpu:0", ids, vectors).search(query, 50).ids, expected.ids)
    finally:
        torch.set_float32_matmul_precision(before)


def test_what_is_added_is_found_and_what_is_removed_is_not() -> None:
    ids, vectors = draw_vectors(1_000, 4)
    index = on("cpu:0", ids, vectors)
    query = np.random.default_rng(5).normal(size=4)
    best = index.search(query, 1).ids[0]
    index.remove(best)
    assert best[0] not in index.search(query, 999).ids
    index.add([9_999], (1e3 * query)[None])
    assert index.search(query, 1).ids[0, 0] == 9_999


def test_a_card_that_is_not_there_is_refused() -> None:
    if "cuda" not in CARDS:
        with pytest.raises(ConfigError, match="device: got 'cuda', but torch finds no such card here"):
            Exact(np.arange(3), np.eye(3), device="cuda")
    with pytest.raises(ConfigError, match="device: got 'tpu', expected cpu, cuda or mps"):
        Exact(np.arange(3), np.eye(3), device="tpu")

"""The exact search finds what a scan of all scores finds, whatever is asked and however the index came to be."""

from pathlib import Path

import numpy as np
import pytest

from tests.retrieval.catalogue import draw_vectors, search_plainly
from zoosim.core.errors import ConfigError, DataError
from zoosim.retrieval import Exact


@pytest.mark.parametrize(
    ("n", "width", "k"), [(1, 1, 3), (63, 3, 5), (64, 4, 64), (1_000, 7, 10), (5_000, 33, 100), (300, 64, 300)]
)
@pytest.mark.parametrize("share", [1.0, 0.5, 0.02, 0.0])
def test_finds_what_a_plain_search_finds_under_any_mask(n: int, width: int, k: int, share: float) -> None:
    ids, vectors = draw_vectors(n, width)
    index = Exact(ids, vectors)
    order = np.argsort(ids)
    rng = np.random.default_rng(1)
    mask = rng.random(n) < share
    queries = rng.normal(size=(8, width))
    queries[3] = vectors[0]
    matches = index.search(queries, k, mask)
    for query, found_ids, scores in zip(queries, matches.ids, matches.scores, strict=True):
        expected_ids, expected_scores = search_plainly(ids[order], vectors[order], query, k, mask)
        n_expected = len(expected_ids)
        np.testing.assert_array_equal(found_ids[:n_expected], expected_ids)
        np.testing.assert_allclose(scores[:n_expected], expected_scores, rtol=1e-12, atol=1e-13)
        assert (found_ids[n_expected:] == -1).all()
        assert (scores[n_expected:] == -np.inf).all()


def test_rounded_vectors_alone_would_find_others() -> None:
    # What the bounds are for: the 500 best by numbers of 8 bits are not the 500 best.
    ids, vectors = draw_vectors(5_000, 32)
    query = np.random.default_rng(2).normal(size=32)
    steps = np.abs(vectors).max(axis=1, keepdims=True) / 127
    rounded = np.round(vectors / steps) * steps
    step = np.abs(query).max() / 63
    of_rounded, _ = search_plainly(ids, rounded, np.round(query / step) * step, 500, np.ones(5_000, bool))
    assert not set(Exact(ids, vectors).search(query, 500).ids[0]) <= set(of_rounded)


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e-4, 1.0, 1e9])
def test_bounds_hold_for_numbers_of_any_size(size: float) -> None:
    rng = np.random.default_rng(3)
    vectors = rng.uniform(-1, 1, size=(500, 8)).astype(np.float32)
    vectors *= np.float32(size)
    vectors[::3, 1:] = 0
    vectors[5] = 0
    ids = np.arange(500)
    index = Exact(ids, vectors)
    for query in (rng.normal(size=8), rng.normal(size=8) * 1e8, rng.normal(size=8) * 1e-200, np.eye(8)[0]):
        expected, _ = search_plainly(ids, vectors, query, 20, np.ones(500, bool))
        np.testing.assert_array_equal(index.search(query, 20).ids[0], expected)


def test_of_equal_scores_the_lower_id_comes_first() -> None:
    vectors = np.ones((200, 5), np.float32)
    index = Exact(np.arange(200)[::-1] * 2, vectors)
    assert list(index.search(np.ones(5), 4).ids[0]) == [0, 2, 4, 6]
    assert list(index.search(np.zeros(5), 4).ids[0]) == [0, 2, 4, 6]


def test_a_query_alone_finds_what_it_finds_in_a_batch() -> None:
    ids, vectors = draw_vectors(20_000, 16)
    index = Exact(ids, vectors)
    queries = np.random.default_rng(4).normal(size=(30, 16))
    batch = index.search(queries, 50)
    for i, query in enumerate(queries):
        alone = index.search(query, 50)
        np.testing.assert_array_equal(batch.ids[i], alone.ids[0])
        np.testing.assert_array_equal(batch.scores[i], alone.scores[0])


def test_products_that_come_and_go_leave_the_index_that_is_built_of_the_rest() -> None:
    ids, vectors = draw_vectors(1_000, 6)
    changed = Exact(ids[:700], vectors[:700] + 1)
    changed.remove(ids[:300])
    changed.add(ids[200:], vectors[200:])  # some removed before, some held with another vector, some new
    changed.add(ids[:200], vectors[:200])
    built = Exact(ids, vectors)
    assert changed.version == built.version
    assert changed.version != Exact(ids, vectors + 1).version
    np.testing.assert_array_equal(changed.ids, np.sort(ids))
    np.testing.assert_array_equal(changed.vectors(ids[:5]), vectors[:5])
    queries = np.random.default_rng(5).normal(size=(5, 6))
    np.testing.assert_array_equal(changed.search(queries, 100).ids, built.search(queries, 100).ids)


def test_a_removed_product_is_never_found() -> None:
    ids, vectors = draw_vectors(300, 4)
    index = Exact(ids, vectors)
    best = index.search(vectors[7], 1).ids[0]
    index.remove(best)
    assert best[0] not in index.search(vectors[7], 299).ids
    with pytest.raises(DataError, match=f"ids: got the id {best[0]}, which the index does not hold"):
        index.remove(best)


def test_some_ids_mean_what_their_mask_means() -> None:
    ids, vectors = draw_vectors(400, 4)
    index = Exact(ids, vectors)
    some = ids[50:250]
    by_ids = index.search(vectors[0], 20, some)
    by_mask = index.search(vectors[0], 20, np.isin(index.ids, some))
    np.testing.assert_array_equal(by_ids.ids, by_mask.ids)


def test_an_empty_index_finds_nothing() -> None:
    index = Exact([], np.zeros((0, 3)))
    assert list(index.search([1, 2, 3], 2).ids[0]) == [-1, -1]
    index.add([7], [[1, 0, 0]])
    assert list(index.search([1, 2, 3], 2).ids[0]) == [7, -1]


def test_a_saved_index_finds_the_same(tmp_path: Path) -> None:
    ids, vectors = draw_vectors(500, 5)
    index = Exact(ids, vectors)
    index.remove(ids[:50])
    index.save(tmp_path / "index")
    loaded = Exact.load(tmp_path / "index")
    assert loaded.version == index.version
    before, after = index.search(vectors[:9], 40), loaded.search(vectors[:9], 40)
    np.testing.assert_array_equal(before.ids, after.ids)
    np.testing.assert_array_equal(before.scores, after.scores)


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    ids, vectors = draw_vectors(50, 5)
    path = tmp_path / "index"
    Exact(ids, vectors).save(path)
    content = bytearray(path.read_bytes())
    content[-200] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="its checksum does not match"):
        Exact.load(path)


@pytest.mark.parametrize(
    ("ids", "vectors", "message"),
    [
        ([1, 1], np.ones((2, 3)), "ids: got the id 1 twice"),
        ([1, -2], np.ones((2, 3)), "ids: got the id -2, expected ids of 0 and up"),
        ([1.5], np.ones((1, 3)), "ids: got .*, expected an array of whole numbers"),
        ([1], np.ones((2, 3)), r"vectors: got 2 rows, expected one per id \(1\)"),
        ([1], np.ones(3), r"vectors: got an array of shape \(3,\)"),
        ([1], [["a"]], "vectors: got .*, expected an array of numbers"),
        ([1, 2], [[0.0], [np.nan]], r"vectors: got nan at \(1, 0\)"),
        ([1], [[1e10]], r"vectors: got 1e\+10 at \(0, 0\), expected finite numbers up to 1e\+09 in size"),
    ],
)
def test_refuses_products_that_make_no_index(ids: object, vectors: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Exact(ids, vectors)


def test_refuses_what_is_no_search() -> None:
    ids, vectors = draw_vectors(10, 3)
    index = Exact(ids, vectors)
    with pytest.raises(ConfigError, match="k: got 0, expected a whole number, 1 to 100,000"):
        index.search(np.ones(3), 0)
    with pytest.raises(DataError, match=r"queries: got an array of shape \(4,\), expected \(3,\) or \(n, 3\)"):
        index.search(np.ones(4), 1)
    with pytest.raises(DataError, match=r"queries: got inf at \(0,\)"):
        index.search([np.inf, 0, 0], 1)
    with pytest.raises(DataError, match=r"allowed: got a mask of shape \(9,\), expected one over the ids, \(10,\)"):
        index.search(np.ones(3), 1, np.ones(9, bool))
    with pytest.raises(DataError, match="allowed: got the id 1000, which the index does not hold"):
        index.search(np.ones(3), 1, [1000])

"""The approximate search: how much of the exact answer it holds, and where it must be exact."""

from pathlib import Path

import numpy as np
import pytest

from tests.retrieval.catalogue import draw_vectors, search_plainly
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.packed import write_packed
from zoosim.retrieval import IVF, Exact, ivf, vectors

N, WIDTH = 30_000, 16


@pytest.fixture(scope="module")
def clustered() -> tuple[np.ndarray, np.ndarray]:
    """Vectors of 60 kinds with norms that differ, and queries between kinds."""
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(60, WIDTH))
    products = kinds[rng.integers(60, size=N)] + 0.5 * rng.normal(size=(N, WIDTH))
    queries = kinds[rng.integers(60, size=(40, 2))].sum(axis=1)
    return (products * np.exp(0.35 * rng.normal(size=(N, 1)))).astype(np.float32), queries


@pytest.fixture(scope="module")
def index(clustered: tuple[np.ndarray, np.ndarray]) -> IVF:
    """An index that no test changes."""
    return IVF(np.arange(N), clustered[0], share=0.15)


def recall(index: IVF, vectors: np.ndarray, queries: np.ndarray) -> float:
    """Return the share of the 100 best products that the index finds."""
    truth, matches = Exact(index.ids, vectors).search(queries, 100), index.search(queries, 100)
    pairs = zip(truth.ids, matches.ids, strict=True)
    return float(np.mean([np.isin(true_ids, found_ids).mean() for true_ids, found_ids in pairs]))


def test_a_share_of_the_blocks_holds_most_of_the_best(clustered: tuple[np.ndarray, np.ndarray], index: IVF) -> None:
    products, queries = clustered
    assert recall(index, products, queries) > 0.97
    # Lists by chance, which say nothing of what they hold, find little more than the share that is looked at and the
    # longest vectors.
    by_chance = IVF(np.arange(N), products, share=0.15)
    shuffled = np.random.default_rng(1).permutation(by_chance._lists.centres)
    by_chance._lists = by_chance._lists._replace(centres=shuffled)
    assert recall(by_chance, products, queries) < 0.7


def test_all_blocks_give_the_exact_answer(clustered: tuple[np.ndarray, np.ndarray], index: IVF, tmp_path: Path) -> None:
    products, queries = clustered
    index.save(tmp_path / "index")
    whole = IVF.load(tmp_path / "index")
    whole.share = 1.0
    found, exact = whole.search(queries, 50), Exact(np.arange(N), products).search(queries, 50)
    np.testing.assert_array_equal(found.ids, exact.ids)
    np.testing.assert_array_equal(found.scores, exact.scores)


def test_a_query_alone_finds_what_it_finds_in_a_batch(clustered: tuple[np.ndarray, np.ndarray], index: IVF) -> None:
    _, queries = clustered
    batch = index.search(queries, 30)
    for i, query in enumerate(queries[:10]):
        np.testing.assert_array_equal(batch.ids[i], index.search(query, 30).ids[0])


def test_an_index_is_built_alike_and_read_alike(
    clustered: tuple[np.ndarray, np.ndarray], index: IVF, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    products, queries = clustered
    again = IVF(np.arange(N), products, share=0.15)
    again.save(tmp_path / "index")
    monkeypatch.setattr("zoosim.core.extras.find_spec", lambda module: None)  # a machine without faiss reads it
    loaded = IVF.load(tmp_path / "index")
    assert again.version == loaded.version == index.version
    for other in (again, loaded):
        np.testing.assert_array_equal(index.search(queries, 30).ids, other.search(queries, 30).ids)


def test_products_of_a_new_kind_are_found_at_once_and_removed_ones_never(
    clustered: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    products, queries = clustered
    index = IVF(np.arange(N), products)
    new_kind = np.random.default_rng(2).normal(size=WIDTH) * 3
    new_vectors = (new_kind + 0.5 * np.random.default_rng(3).normal(size=(200, WIDTH))).astype(np.float32)
    index.add(np.arange(N, N + 200), new_vectors)
    assert index.n_tail == 200
    assert (index.search(new_kind, 50).ids >= N).all()
    before = index.version
    best = index.search(queries[0], 10).ids[0]
    index.remove(best)
    assert not np.isin(best, index.search(queries[0], 1_000).ids).any()
    assert index.version != before
    index.save(tmp_path / "index")
    loaded = IVF.load(tmp_path / "index")
    assert loaded.version == index.version
    assert loaded.n_tail == 200
    np.testing.assert_array_equal(loaded.search(queries, 40).ids, index.search(queries, 40).ids)


def test_blocks_that_were_emptied_are_looked_at_last() -> None:
    """All products lie behind the query, so that nothing at all scores higher than any of them."""
    products = np.abs(np.random.default_rng(4).normal(size=(N, WIDTH))).astype(np.float32)
    index = IVF(np.arange(N), products, share=0.05)
    longest = np.argsort(-np.linalg.norm(products, axis=1))[: N // 2]
    index.remove(longest)
    found = index.search(-np.ones(WIDTH), 10).ids[0]
    assert (found >= 0).all()
    assert not np.isin(found, longest).any()


@pytest.mark.parametrize("n_allowed", [900, 40])
def test_few_allowed_products_lose_nothing(
    clustered: tuple[np.ndarray, np.ndarray], index: IVF, n_allowed: int
) -> None:
    products, queries = clustered
    mask = np.zeros(N, bool)
    mask[np.random.default_rng(4).permutation(N)[:n_allowed]] = True
    matches = index.search(queries, 100, mask)
    for query, found_ids in zip(queries, matches.ids, strict=True):
        expected, _ = search_plainly(np.arange(N), products, query, 100, mask)
        np.testing.assert_array_equal(found_ids[: len(expected)], expected)


def test_small_catalogues_need_no_lists() -> None:
    ids, few = draw_vectors(50, 4)
    index = IVF(ids, few, share=1.0)
    np.testing.assert_array_equal(index.search(few[0], 50).ids, Exact(ids, few).search(few[0], 50).ids)
    empty = IVF([], np.zeros((0, 4)))
    assert list(empty.search(few[0], 2).ids[0]) == [-1, -1]


def test_says_which_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoosim.core.extras.find_spec", lambda module: None)
    ids, some = draw_vectors(100, 4)
    with pytest.raises(ConfigError, match=r"IVF: needs the package faiss.*pip install 'zoosim\[faiss\]'"):
        IVF(ids, some)


def test_refuses_settings_out_of_range() -> None:
    ids, some = draw_vectors(100, 4)
    with pytest.raises(ConfigError, match="n_lists: got 3, expected a whole number, 1 to 2"):
        IVF(ids, some, n_lists=3)
    with pytest.raises(ConfigError, match="share: got 0, expected a number above 0 and at most 1"):
        IVF(ids, some, share=0)


@pytest.mark.parametrize(
    "broken",
    [
        {"centres": np.full((1, 4), np.nan, np.float32)},
        {"centres": np.zeros((1, 3), np.float32)},
        {"block_of_each": np.array([0, 1])},
        {"block_of_each": np.array([0])},
        {"block_of_each": np.array([-2, 0])},
        {"first_blocks": np.array([1, 0])},
        {"first_blocks": np.array([0, 2**40])},
        {"share": np.array([np.nan])},
    ],
)
def test_refuses_a_file_whose_arrays_do_not_fit(broken: dict[str, np.ndarray], tmp_path: Path) -> None:
    arrays = {
        "ids": np.array([1, 2]),
        "vectors": np.ones((2, 4), np.float32),
        "centres": np.zeros((1, 4), np.float32),
        "first_blocks": np.array([0, 1]),
        "block_of_each": np.array([0, ivf.IN_TAIL]),
        "share": np.array([0.5]),
    }
    path = tmp_path / "index"
    write_packed(path, vectors.PACKING, {"kind": "IVF"}, arrays)
    assert len(IVF.load(path).ids) == 2
    write_packed(path, vectors.PACKING, {"kind": "IVF"}, arrays | broken)
    with pytest.raises(DataError, match="is no index, or broken; save it anew"):
        IVF.load(path)
    with pytest.raises(DataError, match="it is no exact index"):
        Exact.load(path)

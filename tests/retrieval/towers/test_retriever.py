"""A retriever is written whole, read back to the bit, and refused where its file is not as it was written."""

from pathlib import Path

import numpy as np
import pytest

from tests.retrieval.towers.shop import TASTES, draw_shop
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.packed import read_packed, write_packed
from zoosim.retrieval import Retriever
from zoosim.retrieval.towers.retriever import PACKING
from zoosim.retrieval.towers.tower import new_tower
from zoosim.schema.schema import plain_schema


def make_retriever(seed: int = 0) -> Retriever:
    rng = np.random.default_rng(seed)
    rows = draw_shop(n=50, products=40, never=4).rows
    visitors = new_tower(rows.visitors, 4, 5, rng=rng)
    products = new_tower(rows.products, 4, 6, rng=rng)
    names = tuple(f"p{number}" for number in range(40))
    fitted = plain_schema(["a", "b", "c"], ["x", "y", "z"])
    vectors = products.vectors(rows.products)
    return Retriever(np.arange(40), vectors, visitors, products, names, fitted, {"rows": 50, "clicks": 7})


def test_a_file_holds_all_that_it_takes(tmp_path: Path) -> None:
    made = make_retriever()
    made.save(tmp_path / "shop.retriever")
    read = Retriever.load(tmp_path / "shop.retriever")
    assert read.version == made.version
    assert (read.names, read.facts, read.fitted) == (made.names, made.facts, made.fitted)
    features = np.random.default_rng(1).normal(size=(7, TASTES))
    np.testing.assert_array_equal(read.vectors, made.vectors)
    np.testing.assert_array_equal(read.queries(features), made.queries(features))
    np.testing.assert_array_equal(read.cold_vectors(features), made.cold_vectors(features))
    visitor = dict(zip("abc", features[0].tolist(), strict=True))
    np.testing.assert_allclose(read.query(visitor), made.queries(features[:1])[0], rtol=1e-6)
    assert read.query(visitor)[-1] == 1.0
    assert read.names_of([7, 0, 39]) == ["p7", "p0", "p39"]
    scores = read.index().search(read.query(visitor), 3)
    np.testing.assert_allclose(scores.scores[0], np.sort(made.vectors @ made.query(visitor))[::-1][:3], rtol=1e-5)


def test_the_version_names_what_is_retrieved() -> None:
    assert make_retriever(0).version == make_retriever(0).version
    assert make_retriever(0).version != make_retriever(1).version


def test_bad_files_and_bad_calls_are_one_line(tmp_path: Path) -> None:
    made = make_retriever()
    path = tmp_path / "shop.retriever"
    made.save(path)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match="its checksum does not match"):
        Retriever.load(path)
    with pytest.raises(DataError, match="no such file; zoosim train-retriever writes them"):
        Retriever.load(tmp_path / "none.retriever")
    with pytest.raises(ConfigError, match="retriever"):
        made.save(tmp_path / "shop.zoosim")
    with pytest.raises(DataError, match=r"expected \(n, 3\)"):
        made.queries(np.zeros((2, 4)))
    with pytest.raises(DataError, match="expected values by column"):
        made.query([1.0])  # type: ignore[arg-type]
    unnamed = Retriever(made.ids, made.vectors, made._visitors, made._products)
    with pytest.raises(DataError, match="give features to queries"):
        unnamed.query({})
    with pytest.raises(DataError, match="the log had no names"):
        unnamed.names_of([0])
    with pytest.raises(DataError, match="got the id 77"):
        made.names_of([3, 77])


@pytest.mark.parametrize("part", ["visitors.weights", "products.center", "visitors.hidden", "vectors", "ids"])
def test_parts_that_do_not_fit_are_refused(part: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.retriever"
    make_retriever().save(path)
    header, arrays = read_packed(path, PACKING)
    write_packed(path, PACKING, header, {**arrays, part: arrays[part][:-1]})
    with pytest.raises(DataError, match="is no retriever, or broken"):
        Retriever.load(path)

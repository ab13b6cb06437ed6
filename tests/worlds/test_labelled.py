"""A labelled table as a world: reading, scaling, what is refused, and who comes."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from zoosim.core.config import LabelledConfig
from zoosim.core.errors import ConfigError, DataError
from zoosim.worlds.labelled import LabelledTable, build_labelled_world, read_table
from zoosim.worlds.table import earn


def write(folder: Path, text: str) -> LabelledConfig:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return LabelledConfig(data=str(path))


def test_words_become_one_column_each_and_numbers_are_scaled(tmp_path: Path) -> None:
    """size: 2, 4, 6 -> 0, .5, 1; color: blue, red; fixed: constant -> 0."""
    config = write(tmp_path, "size,color,label,fixed,new\n2,red,no,7,true\n4,blue,yes,7,false\n6,red,no,7,true\n")
    table = read_table(config)
    assert table.classes == ("no", "yes")
    assert table.labels.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(table.features, [[0, 0, 1, 0, 1], [0.5, 1, 0, 0, 0], [1, 0, 1, 0, 1]])


def test_csv_and_parquet_give_the_same_table(tmp_path: Path) -> None:
    config = write(tmp_path, "size,color,kind\n2,red,1\n4,blue,2\n6,red,1\n").model_copy(update={"label": "kind"})
    path = tmp_path / "table.parquet"
    pl.read_csv(str(config.data)).write_parquet(path)
    csv, parquet = read_table(config), read_table(LabelledConfig(data=str(path), label="kind"))
    np.testing.assert_array_equal(csv.features, parquet.features)
    assert csv.classes == parquet.classes == ("1", "2")
    assert csv.digest == parquet.digest


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a,b,label\n1,2,x\n,2,y\n", "column a has 1 missing"),
        ("a,b,label\n1,2,x\nNaN,2,y\n", "column a has 1 missing or non-finite"),
        ("a,b,label\n1,2,x\nnan,2,y\n", "column a has 1 missing or non-finite"),
        ("a,b,label\n1,inf,x\n1,2,y\n", "column b has 1 missing or non-finite"),
        ("a,b,label\n1,2,1.5\n1,3,nan\n1,3,2.5\n", "column label has 1 missing labels"),
        ("a,b,label\n1,u,x\n1,,y\n", "column b has 1 missing"),
        ("a,b,label\n1,2,x\n1,2,\n3,4,y\n", "column label has 1 missing labels"),
        ("a,b,label\n1,2,x\n1,3,x\n", "column label has 1 classes, expected 2"),
        ("a,b,labels\n1,2,x\n1,3,y\n", r"no column 'label' \(did you mean labels\?\).*--label"),
        ("a,label\n1,x\n", "got 1 rows and 2 columns"),
        ("label\nx\ny\n", "got 2 rows and 1 columns"),
        ("", "cannot be read as a table"),
        ("a,label\n" + "".join(f"w{n},{n % 2}\n" for n in range(101)), "column a has 101 different words, 100 at most"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(DataError, match=match):
        read_table(write(tmp_path, text))


def test_a_file_that_is_not_there_or_not_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_table(LabelledConfig(data=str(tmp_path / "none.csv")))
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"not parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_table(LabelledConfig(data=str(broken)))


def test_without_a_file_the_table_is_the_handwritten_digits() -> None:
    table = read_table(LabelledConfig())
    assert table.features.shape == (1797, 64)
    assert table.classes == tuple("0123456789")
    assert np.bincount(table.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert (table.features.min(), table.features.max()) == (0, 1)


def test_a_labelled_world_passes_over_the_rows_and_clicks_the_right_class() -> None:
    table = LabelledTable(np.arange(14.0).reshape(7, 2), np.array([0, 1, 2, 0, 1, 2, 0]), ("a", "b", "c"))
    world = build_labelled_world(table, seed=0, steps=18, repeat=True)
    visitors = world.visitors(0, 18)
    passes = [visitors[:7], visitors[7:14]]
    assert [sorted(rows) for rows in passes] == [list(range(7))] * 2
    assert not np.array_equal(passes[0], passes[1])
    assert len(set(visitors[14:])) == 4
    for product in range(3):
        clicked = [earn(world.visits(0, 18), i, product) for i in range(18)]
        np.testing.assert_array_equal(clicked, table.labels[visitors] == product)
    np.testing.assert_array_equal(world.users, table.features)
    assert not np.array_equal(build_labelled_world(table, seed=1, steps=18, repeat=True).visitors(0, 18), visitors)
    assert world.before() is not None


def test_rows_come_once_and_never_in_a_past_unless_they_may_come_back() -> None:
    table = LabelledTable(np.arange(14.0).reshape(7, 2), np.array([0, 1, 2, 0, 1, 2, 0]), ("a", "b", "c"))
    world = build_labelled_world(table, seed=0, steps=7)
    assert sorted(world.visitors(0, 7)) == list(range(7))
    assert world.before() is None
    with pytest.raises(ConfigError, match=r"steps: got 8, expected at most 7, .*env\.repeat=true"):
        build_labelled_world(table, seed=0, steps=8)


def write_parquet(folder: Path, **columns: object) -> LabelledConfig:
    path = folder / "table.parquet"
    pl.DataFrame(columns, strict=False).write_parquet(path)
    return LabelledConfig(data=str(path))


def test_labels_that_are_no_number_are_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column label has 1 missing labels"):
        read_table(write_parquet(tmp_path, a=[1, 2, 3], label=[1.0, float("nan"), 2.0]))


@pytest.mark.parametrize("column", [[[1], [2, 3]], [{"x": 1}, {"x": 2}], [b"\xff", b"\xfe"]])
def test_columns_of_neither_numbers_nor_words_are_refused(tmp_path: Path, column: list[object]) -> None:
    for values in ({"a": column, "label": ["x", "y"]}, {"a": [1, 2], "label": column}):
        with pytest.raises(DataError, match="expected numbers or words"):
            read_table(write_parquet(tmp_path, **values))


def test_the_widest_column_is_scaled(tmp_path: Path) -> None:
    table = read_table(write_parquet(tmp_path, a=[-1.7e308, 0.0, 1.7e308], label=["x", "y", "x"]))
    np.testing.assert_array_equal(table.features, [[0.0], [0.5], [1.0]])

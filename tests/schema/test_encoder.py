"""The encoder: one visitor at a time and in bulk to the same bits, whatever values hold and however written."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from zoosim.core.errors import ConfigError, DataError
from zoosim.schema.column import FittedColumn
from zoosim.schema.columns import COLUMN_TYPES, LevelColumn
from zoosim.schema.encoder import Encoder, fit_encoder
from zoosim.schema.infer import infer_rewards, infer_roles, infer_type
from zoosim.schema.number_columns import REACH, NumberColumn, VectorColumn
from zoosim.schema.values import number_of, numbers_of, text_of, time_of, truth_of

WORDS = st.text(max_size=6) | st.sampled_from(
    ["", " ", "nan", "NaN", "NULL", "7", "7.0", " 7 ", "+7", "-0", "1e3", ".5", "5.", "1e999", "1e-999", "inf", "0x1"]
)
NUMBERS = st.floats() | st.integers(-(2**62), 2**62)


def shop(n: int = 200, seed: int = 0) -> pl.DataFrame:
    """Return a table of visitors with a column of each type, as CSV has them, values missing in each."""
    rng = np.random.default_rng(seed)
    hours = rng.integers(0, 24 * 30, n)
    columns: dict[str, Any] = {
        "age": [f"{age:.1f}" if age > 20 else "" for age in rng.normal(45, 15, n)],
        "member": rng.choice(["yes", "no", ""], n),
        "country": rng.choice(["de", "fr", "NA", "it"], n),
        "city": [f"city {i}" for i in rng.integers(0, 120, n)],
        "likes": rng.choice(["cats|dogs", "dogs", "fish|cats|dogs", ""], n),
        "at": [f"2026-03-{1 + hour // 24:02}T{hour % 24:02}:17:00Z" for hour in hours],
    }
    return pl.DataFrame(columns)


TYPES = {"age": "number", "member": "yes/no", "country": "category", "city": "category", "likes": "words", "at": "time"}


@cache
def encoder() -> Encoder:
    """Return an encoder fitted to `shop()`, the same for all tests."""
    return fit_encoder(shop(), TYPES, "shop.csv")


def assert_same_bits(fitted: Encoder, frame: pl.DataFrame) -> None:
    """Compare rows that were encoded together with each by itself."""
    together = fitted.encode(frame)
    assert together.shape == (frame.height, fitted.width)
    assert np.isfinite(together).all()
    for row, values in enumerate(frame.to_dicts()):
        assert fitted.encode_one(values).tobytes() == together[row].tobytes(), values


def test_rows_are_encoded_alike_one_at_a_time_and_in_bulk() -> None:
    assert_same_bits(encoder(), shop())
    assert_same_bits(encoder(), shop(seed=1))


@settings(max_examples=80, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=50))
@example(["1e5", "+1", "-.5", "012", "1_0", "\uff11", "1e", "9" * 400, "\x00", "true", "2026-01-01", "0.1e-400"])
def test_any_text_is_encoded_alike_in_every_column(texts: list[str]) -> None:
    frame = pl.DataFrame({name: pl.Series(texts, dtype=pl.String) for name in TYPES})
    assert_same_bits(encoder(), frame)


@settings(max_examples=50, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_any_number_is_encoded_alike_in_every_column(values: list[float]) -> None:
    column = pl.Series(values, dtype=pl.Float64, strict=False)
    assert_same_bits(encoder(), pl.DataFrame(dict.fromkeys(TYPES, column)))
    whole = pl.Series([int(value) for value in values if abs(value) < 2**62], dtype=pl.Int64)
    assert_same_bits(encoder(), pl.DataFrame(dict.fromkeys(TYPES, whole)))


@settings(max_examples=100, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=20))
def test_numbers_are_read_from_texts_as_one_by_one(texts: list[str]) -> None:
    alone = [number_of(text) for text in texts]
    together = numbers_of(pl.Series(texts, dtype=pl.String))
    np.testing.assert_array_equal(together, np.array([math.nan if x is None else x for x in alone]))


@settings(max_examples=50, deadline=None)
@given(st.lists(WORDS | NUMBERS | st.none() | st.booleans(), min_size=1, max_size=30))
def test_whatever_a_column_holds_it_can_be_fitted_and_read_back(values: list[Any]) -> None:
    """To lists of anything: a fitted encoder is JSON, and comes back from it as it was."""
    column = pl.Series("x", [None if value is None else str(value) for value in values], dtype=pl.String)
    frame = pl.DataFrame([column])
    for kind in ("number", "yes/no", "category", "words", "time"):
        try:
            fitted = fit_encoder(frame, {"x": kind}, "table")
        except DataError as error:
            assert f"values are no {kind} (" in str(error)  # noqa: PT017
            continue
        assert_same_bits(fitted, frame)
        again = Encoder.model_validate_json(fitted.model_dump_json())
        assert again == fitted
        assert again.fingerprint == fitted.fingerprint


def test_a_value_is_the_same_however_it_is_written() -> None:
    assert [text_of(value) for value in (7, 7.0, "7", " 7.0 ", "7.00", np.int32(7), np.float32(7))] == ["7"] * 7
    assert [text_of(value) for value in (None, "", "  ", "NA", math.nan, "null")] == [None] * 6
    assert [text_of(value) for value in (True, "true", np.bool_(True))] == ["true"] * 3
    assert [truth_of(value) for value in ("Yes", 1, "0", False, "maybe", None)] == [
        True,
        True,
        False,
        False,
        None,
        None,
    ]


def test_numbers_are_scaled_and_clipped() -> None:
    """1 to 1,000: clipped at the quantiles .001 and .999, then a mean of 0 and a standard deviation of 1."""
    column = pl.Series("x", np.arange(1, 1001))
    fitted = NumberColumn.fitted("x", column)
    assert not fitted.missing
    encoded = fitted.encode_distinct(column)[0][:, 0]
    assert abs(encoded.mean()) < 1e-12
    assert encoded.std() == pytest.approx(1.0)
    assert fitted.encode_one(10**9) == [encoded.max()]
    assert fitted.encode_one(None) == [0.0]


def test_one_outlier_does_not_set_the_scale() -> None:
    numbers = np.append(np.random.default_rng(0).normal(size=9_999), 1e12)
    fitted = NumberColumn.fitted("x", pl.Series("x", numbers))
    assert fitted.scale < 1.1


def test_levels_are_features_by_name_and_many_are_hashed() -> None:
    fitted = fit_encoder(shop(), {"country": "category", "city": "category"}, "shop.csv")
    assert fitted.features[:5] == (
        *("country is de", "country is fr", "country is it"),
        *("country is another", "country is missing"),
    )
    assert fitted.encode_one({"country": "es"})[:5].tolist() == [0, 0, 0, 1, 0]
    assert fitted.encode_one({})[:5].tolist() == [0, 0, 0, 0, 1]
    counts = shop()["city"].value_counts(sort=True)
    commonest, rarest = counts["city"][0], counts["city"][-1]
    assert dict(zip(fitted.features, fitted.encode_one({"city": commonest}), strict=True))[f"city is {commonest}"] == 1
    for hashed in (rarest, "a city that is new"):
        assert sorted(fitted.encode_one({"city": hashed})[5:]) == [0.0] * 112 + [1.0] * 2
        assert fitted.encode_one({"city": hashed})[5:55].sum() == 0


def test_levels_stay_apart_where_they_are_hashed() -> None:
    names = [f"brand {i}" for i in range(100)]
    fitted = fit_encoder(pl.DataFrame({"brand": names}), {"brand": "category"}, "table")
    assert fitted.width == 114
    assert len(np.unique(fitted.encode(pl.DataFrame({"brand": names})), axis=0)) >= 98
    one_bucket = fit_encoder(pl.DataFrame({"brand": names}), {"brand": {"type": "category", "buckets": 1}}, "table")
    assert one_bucket.encode_one({"brand": "other"}).tolist() == [0.0] * 50 + [1.0]


def test_levels_that_few_visitors_had_have_no_feature_of_their_own() -> None:
    """Of 40 visitors one half is called a and the other b but for one, c; d is in 30 rows, all of one visitor."""
    visitors = np.r_[np.arange(40), np.full(30, 40)]
    names = np.r_[np.repeat("a", 20), np.repeat("b", 20), np.repeat("d", 30)]
    names[-31] = "c"
    frame = pl.DataFrame({"name": names, "likes": [f"{name}|x" for name in names]})
    types = {"name": "category", "likes": "words"}

    def fitted(visitors: Any, fewest: int = 20) -> Encoder:
        return fit_encoder(frame, types, "table", visitors=visitors, fewest_visitors=fewest)

    by_visitor, by_row = fitted(visitors), fitted(None)
    levels = {"name": ("a",), "likes": ("a", "x")}
    assert {column.name: column.levels for column in by_visitor.columns if isinstance(column, LevelColumn)} == levels
    levels = {"name": ("a", "d"), "likes": ("a", "d", "x")}
    assert {column.name: column.levels for column in by_row.columns if isinstance(column, LevelColumn)} == levels
    # b, c and d share 12 features, two each; of the words they are "another".
    assert by_visitor.width == 1 + 12 + 2 + 1
    assert len({by_visitor.encode_one({"name": name}).tobytes() for name in "abcd"}) == 4
    assert {by_visitor.encode_one({"likes": [word]})[-1] for word in "bcd"} == {1.0}
    assert not set("bcd") & {feature[-1] for feature in by_visitor.features}
    note = "3 levels that too few visitors had (fewest_visitors) have no features of their own"
    rare = by_visitor.rare_levels()
    assert rare.keys() == levels.keys()
    assert all(text.startswith(note) for text in rare.values())
    assert by_visitor.drift(frame) == {}
    assert "as 71.4% were" in by_visitor.drift(frame.tail(40))["likes"]
    assert fitted(visitors, 1).rare_levels() == {}
    assert_same_bits(by_visitor, frame)


def test_a_level_that_is_alone_among_the_others_shares_nothing() -> None:
    frame = pl.DataFrame({"name": ["a"] * 30 + ["b"]})
    fitted = fit_encoder(frame, {"name": "category"}, "table", fewest_visitors=20)
    assert fitted.features == ("name is a", "name is another")
    assert fitted.encode_one({"name": "b"}).tolist() == [0.0, 1.0]
    assert fitted.drift(frame) == {}
    assert "none of its 1 levels" in fitted.drift(pl.DataFrame({"name": ["c"] * 30}))["name"]


def test_a_share_of_hashed_levels_that_grows_is_drift() -> None:
    rng = np.random.default_rng(0)
    names = [f"brand {i}" for i in range(60)]
    shares = np.repeat([0.0196, 0.002], [50, 10])
    first, second = (pl.DataFrame({"brand": rng.choice(names, 5_000, p=shares)}) for _ in range(2))
    fitted = fit_encoder(first, {"brand": "category"}, "table")
    assert fitted.drift(second) == {}
    later = pl.concat([second, pl.DataFrame({"brand": ["brand 77"] * 200})])
    assert "values are none of its 50 levels, as 2.0% were" in fitted.drift(later)["brand"]


def test_columns_may_be_called_as_counts_are() -> None:
    frame = pl.DataFrame({"count": ["a|b", "b", ""], "value": ["x", "y", "z"]})
    fitted = fit_encoder(frame, {"count": "words", "value": "category"}, "table")
    assert fitted.drift(frame) == {}
    assert_same_bits(fitted, frame)


def test_lists_of_words_and_times() -> None:
    fitted = fit_encoder(shop(), {"likes": "words"}, "shop.csv")
    assert fitted.features == (
        "likes has cats",
        "likes has dogs",
        "likes has fish",
        "likes has another",
        "likes is missing",
    )
    assert fitted.encode_one({"likes": ["dogs", "birds"]}).tolist() == [0, 1, 0, 1, 0]
    hours = fit_encoder(shop(), {"at": {"type": "time", "time_zone": "Europe/Berlin"}}, "shop.csv")
    at_noon = hours.encode_one({"at": "2026-07-06T10:00:00Z"})  # a Monday, noon in Berlin
    np.testing.assert_allclose(at_noon[:4], [0.0, -1.0, 0.0, 1.0], atol=1e-12)
    same = [datetime(2026, 7, 6, 12), datetime(2026, 7, 6, 10, tzinfo=UTC), np.datetime64("2026-07-06T12:00")]
    for value in same:
        np.testing.assert_array_equal(hours.encode_one({"at": value}), at_noon)
    assert time_of(date(2026, 7, 6), UTC) == datetime(2026, 7, 6, tzinfo=UTC)  # type: ignore[arg-type]


def test_times_of_data_frames_are_encoded_alike() -> None:
    times = pl.Series("at", [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(24)])
    assert_same_bits(
        fit_encoder(pl.DataFrame([times]), {"at": "time"}, "table"), pl.DataFrame([times, times.alias("b")])
    )


TIMES = st.datetimes(datetime(1890, 1, 1), datetime(2100, 1, 1))
ZONES = st.sampled_from(["", "Z", "+01:00", "-03:30", "+00", "z", " "])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(TIMES, ZONES, st.sampled_from(["T", " ", "t"])), min_size=1, max_size=20),
    st.sampled_from(["UTC", "Europe/Amsterdam", "Asia/Kathmandu"]),
)
def test_times_are_read_alike_one_at_a_time_and_in_bulk(times: list[tuple[datetime, str, str]], local: str) -> None:
    texts = [moment.isoformat(sep) + zone for moment, zone, sep in times]
    readable = pl.DataFrame({"at": [*texts, *["2026-01-01"] * len(texts)]})
    fitted = fit_encoder(readable, {"at": {"type": "time", "time_zone": local}}, "table")
    assert_same_bits(fitted, pl.DataFrame({"at": texts}))
    assert_same_bits(fitted, pl.DataFrame({"at": [moment for moment, _, _ in times]}))


def test_vectors_are_taken_as_they_are_but_for_their_scale() -> None:
    lists = np.random.default_rng(0).normal(size=(50, 3)) * 7.0
    frame = pl.DataFrame({"text": [*lists.tolist(), None, [1.0]]})
    fitted = fit_encoder(frame, {"text": None}, "table")
    assert fitted.features == ("text [0]", "text [1]", "text [2]", "text is missing")
    assert_same_bits(fitted, frame)
    np.testing.assert_allclose(np.square(fitted.encode(frame)[:50, :3]).mean(), 1.0)
    assert fitted.encode_one({"text": [1.0]}).tolist() == [0, 0, 0, 1]


def test_numbers_of_vectors_are_clipped_to_what_most_lists_hold() -> None:
    """Three lists of 8e8 among 1,000 set neither the scale nor the limit; without them nothing of the table is cut."""
    sound = np.random.default_rng(0).normal(size=(1_000, 3))
    usual = fit_encoder(pl.DataFrame({"text": sound.tolist()}), {"text": "vector"}, "table")
    scale = np.sqrt(np.square(sound).mean())
    np.testing.assert_allclose(usual.encode(pl.DataFrame({"text": sound.tolist()})), sound / scale)
    frame = pl.DataFrame({"text": [*sound.tolist(), *[[8e8, -8e8, 0.0]] * 3]})
    fitted = fit_encoder(frame, {"text": "vector"}, "table")
    assert_same_bits(fitted, frame)
    for encoder in (usual, fitted):
        least, most, nothing = encoder.encode_one({"text": [-8e8, 8e8, 0.0]})
        assert -10.0 < least == -most < -2.0
        assert nothing == 0.0


@pytest.mark.parametrize("length", [1, 2, 9, 130])
def test_lists_longer_than_those_of_the_table_are_shortened(length: int) -> None:
    """A list with the largest number in every place is clipped nowhere, and yet far longer than any other."""
    rng = np.random.default_rng(length)
    lists = rng.normal(size=(300, length))
    encoder = fit_encoder(pl.DataFrame({"text": lists.tolist()}), {"text": "vector"}, "table")
    longest = np.linalg.norm(encoder.encode(pl.DataFrame({"text": lists.tolist()})), axis=1).max()
    corners = np.full((50, length), np.abs(lists).max()) * rng.choice([-1.0, 1.0], (50, length))
    frame = pl.DataFrame({"text": corners.tolist()})
    encoded = encoder.encode(frame)
    np.testing.assert_allclose(np.linalg.norm(encoded, axis=1), longest)
    np.testing.assert_allclose(encoded / np.abs(encoded), corners / np.abs(corners))
    assert_same_bits(encoder, frame)
    assert not any(encoder.read({"text": one}).clipped() for one in lists.tolist())
    assert all(encoder.read({"text": one}).clipped() for one in corners.tolist()) == (length > 1)


def test_a_few_long_lists_set_no_length() -> None:
    """5 of 200 lists of 10 ones are five times as long as the others; so they count as lists of twice those."""
    lists = [[0.2] * 10] * 195 + [[1.0] * 10] * 5
    encoder = fit_encoder(pl.DataFrame({"text": lists}), {"text": "vector"}, "table")
    usual, long = (encoder.encode_one({"text": [number] * 10}) for number in (0.2, 1.0))
    np.testing.assert_allclose(long, 2.0 * usual)


def test_vectors_of_models_without_a_limit_are_clipped_as_well() -> None:
    column = VectorColumn(name="text", length=2, scale=2.0)
    assert column.encode_one([8e8, -3.0]) == [REACH, -1.5]


def test_vectors_that_are_mostly_0_keep_their_ones() -> None:
    frame = pl.DataFrame({"text": [*[[0.0, 0.0]] * 99, [0.0, 1.0]]})
    fitted = fit_encoder(frame, {"text": "vector"}, "table")
    np.testing.assert_allclose(fitted.encode(frame)[99], [0.0, np.sqrt(200.0)])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.none() | st.lists(NUMBERS | WORDS | st.none(), max_size=3), min_size=1, max_size=20))
def test_lists_of_anything_are_encoded_alike_as_vectors(lists: list[list[Any] | None]) -> None:
    words = [None if part is None else [None if value is None else str(value) for value in part] for part in lists]
    numbers = [None if part is None else [number_of(value) for value in part] for part in lists]
    for column in (pl.Series(words, dtype=pl.List(pl.String)), pl.Series(numbers, dtype=pl.List(pl.Float64))):
        frame = pl.DataFrame({"text": pl.Series([*column, *([[1.0, -0.0]] * 20)], dtype=column.dtype, strict=False)})
        assert_same_bits(fit_encoder(frame, {"text": "vector"}, "table"), frame)
    array = pl.DataFrame({"text": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2))})
    assert_same_bits(fit_encoder(array, {"text": None}, "table"), array)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2.5", "3", ""], "number"),
        (["1", "0", "1"], "yes/no"),
        (["yes", "No", None], "yes/no"),
        (["de", "fr", "de"], "category"),
        (["a|b", "b|c|a", "c", "a|c"], "words"),
        (["2026-01-01T10:00:00Z", "2026-01-02 11:00"], "time"),
        ([True, False], "yes/no"),
        ([[1.0, 2.0]], "vector"),
        ([["a"], ["b", "c"]], "words"),
        (["", None], ""),
        (["same", "same"], ""),
        (["same", "", None], "category"),
        (["yes", *[""] * 99], "yes/no"),
        ([*[f"comment {i}" for i in range(2_000)], *[""] * 9_000], ""),
        ([f"{i} {i}" for i in range(5_000)], ""),
        ([*map(str, range(100)), "n/a", "?"], "number"),
    ],
)
def test_types_are_guessed_from_values(values: list[Any], expected: str) -> None:
    assert infer_type(pl.Series("x", values, strict=False)).type == expected


def test_roles_and_rewards_are_guessed_from_names() -> None:
    names = ["Item ID", "pscore", "customer", "Clicked", "GMV", "age"]
    assert infer_roles(names) == {"action": "Item ID", "propensity": "pscore", "user_id": "customer"}
    assert infer_rewards(names) == {"click": "Clicked", "revenue": "GMV"}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([{"a": 1}, {"a": 2}], ""),
        ([b"a", b"b"], ""),
        (pl.Series([{1}, object()], dtype=pl.Object), ""),
        ([time(10), time(11)], "category"),
        ([timedelta(1), timedelta(2)], "category"),
        ([date(2026, 1, 1), date(2026, 1, 2)], "time"),
        ([[1.0], [1.0, 2.0]], "words"),
    ],
)
def test_types_of_data_frames_are_guessed_and_can_be_fitted(values: Any, kind: str) -> None:
    column = pl.Series("x", values)
    assert infer_type(column).type == kind
    if kind:
        assert_same_bits(fit_encoder(pl.DataFrame([column]), {"x": kind}, "table"), pl.DataFrame([column]))


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("number", ["a", "b", "3", ""], r"column x: 2 of 3 values are no number \(a, b\); give it another type$"),
        ("yes/no", ["perhaps", "no", "never"], r"2 of 3 values are no yes/no \(never, perhaps\)"),
        ("time", ["17"], r"1 of 1 values are no time \(17\); .*, or say what numbers count .epoch: s"),
        ("vector", ["a"], "1 of 1 values are no vector"),
    ],
)
def test_a_column_that_mostly_cannot_be_read_is_refused(kind: str, values: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_encoder(pl.DataFrame({"x": values}), {"x": kind}, "table")


@pytest.mark.parametrize(("epoch", "unit"), [("s", 1), ("ms", 1_000), ("us", 1_000_000)])
def test_times_are_counted_in_an_epoch(epoch: str, unit: int) -> None:
    moments = [datetime(2026, 3, 1, hour, 30, tzinfo=UTC) for hour in range(24)]
    counts = [int(moment.timestamp()) * unit for moment in moments]
    fitted = fit_encoder(pl.DataFrame({"at": counts}), {"at": {"type": "time", "epoch": epoch}}, "table")
    expected = fitted.encode(pl.DataFrame({"at": moments}))
    assert len(np.unique(expected, axis=0)) == 24
    for values in (counts, [float(count) for count in counts], [str(count) for count in counts]):
        assert fitted.encode(pl.DataFrame({"at": values})).tobytes() == expected.tobytes()
        assert_same_bits(fitted, pl.DataFrame({"at": [*values, None]}, strict=False))
    assert not fitted.columns[0].reads(pl.Series([1e99])).any()


def test_nothing_is_a_negative_zero() -> None:
    column = pl.Series("x", [0.0, -0.0, 0.0])
    fitted = fit_encoder(pl.DataFrame([column]), {"x": "number"}, "table")
    assert_same_bits(fitted, pl.DataFrame([column]))
    assert not np.signbit(fitted.encode(pl.DataFrame([column]))).any()


def test_what_is_new_is_counted_by_column() -> None:
    fitted = encoder()
    later = shop(seed=1).with_columns(pl.lit("es").alias("country"), pl.lit("1000").alias("age")).drop("member")
    drift = fitted.drift(later)
    assert drift["country"] == "200 of 200 values are new (es)"
    assert drift["age"] == "200 of 200 values are new (1000)"
    assert drift["member"] == "the column is gone; all its values count as missing"
    assert "likes" not in drift
    assert fitted.drift(shop()).keys() <= {"age"}  # beyond the quantiles that are clipped


@pytest.mark.parametrize("kind", COLUMN_TYPES)
def test_a_column_of_missing_values_alone_can_be_encoded(kind: str) -> None:
    frame = pl.DataFrame({"x": pl.Series([None, None], dtype=pl.String)})
    fitted = fit_encoder(frame, {"x": kind}, "table")
    assert_same_bits(fitted, frame)
    assert fitted.encode_one({})[-1] == 1.0  # the feature that tells that it is missing


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"aeg": "number"}, "table: got no column 'aeg', expected one of age"),
        ({"age": "nubmer"}, "table: column age.type: got 'nubmer', expected 'number', 'yes/no'"),
    ],
)
def test_a_wrong_column_or_type_is_refused_in_one_line(types: Mapping[str, str], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        fit_encoder(shop().select("age"), types, "table")


@pytest.mark.parametrize(
    "broken",
    [
        {"columns": [{"type": "number", "name": "x", "low": 0, "high": 1, "center": 0, "scale": 0}]},
        {"columns": [{"type": "number", "name": "x", "low": 0, "high": 1, "center": 0, "scale": "NaN"}]},
        {"columns": [{"type": "category", "name": "x", "levels": ["a", "a"]}]},
        {"columns": [{"type": "time", "name": "x", "time_zone": "Mars/Base"}]},
        {"columns": [{"type": "yes/no", "name": "x"}, {"type": "yes/no", "name": "x"}]},
        {"columns": [{"type": "category", "name": "x", "buckets": 10**9}]},
        {"columns": [{"type": "code", "name": "x"}]},
    ],
)
def test_a_broken_encoder_is_not_read(broken: Mapping[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Encoder.model_validate_json(json.dumps(broken))


def test_every_type_names_its_features() -> None:
    for kind in COLUMN_TYPES.values():
        assert issubclass(kind, FittedColumn)
    fitted = encoder()
    assert len(set(fitted.features)) == len(fitted.features) == fitted.width


def test_skewed_numbers_above_zero_are_scaled_by_their_logarithms() -> None:
    """By default prices are and ages are not; each can be told otherwise, but for numbers that have no logarithm."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"price": np.exp(rng.normal(3.0, 1.0, 5_000)), "age": rng.normal(44.0, 14.0, 5_000)})
    fitted = fit_encoder(frame, {"price": "number", "age": "number"}, "shop.csv")
    price, age = fitted.columns
    assert isinstance(price, NumberColumn)
    assert isinstance(age, NumberColumn)
    assert price.log
    assert not age.log
    clipped = np.log(frame["price"].to_numpy().clip(price.low, price.high))
    np.testing.assert_allclose(fitted.encode(frame)[:, 0], (clipped - clipped.mean()) / clipped.std(), rtol=1e-9)
    assert_same_bits(fitted, frame)
    assert_same_bits(
        fitted, pl.DataFrame({"price": [None, -1.0, 0.0, 1e-300, 1e300], "age": [1.0, 2.0, None, 0.0, 5.0]})
    )
    plain = fit_encoder(frame, {"price": {"type": "number", "log": False}}, "shop.csv")
    assert plain.columns[0].model_dump()["log"] is False
    with pytest.raises(ConfigError, match=r"column age: log: got numbers from -.* on, expected all above 0"):
        fit_encoder(frame, {"age": {"type": "number", "log": True}}, "shop.csv")

"""A schema that grows by what it does not express: columns, levels and types, as far as enough visitors had them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from zoosim.schema.column import FEWEST_VISITORS, MOST_LEVELS
from zoosim.schema.encoder import Encoder
from zoosim.schema.growth import MOST_COLUMNS, MOST_FEATURES, Observations, grow_encoder
from zoosim.schema.number_columns import VectorColumn


def observed(make: Callable[[int], Mapping[str, Any]], n: int = 200, visitors: int = 0) -> Observations:
    """Return n rows, each of another visitor, or of so many in turn."""
    return Observations([make(row) for row in range(n)], [f"v{row % (visitors or n)}" for row in range(n)])


def grown(make: Callable[[int], Mapping[str, Any]], n: int = 200, visitors: int = 0) -> Encoder:
    return grow_encoder(Encoder(), observed(make, n, visitors)).encoder


def types(encoder: Encoder) -> dict[str, str]:
    return {column.name: column.type for column in encoder.columns}


def test_columns_are_what_their_values_say() -> None:
    rng = np.random.default_rng(0)

    def row(number: int) -> dict[str, Any]:
        return {
            "number": float(number),
            "flag": bool(number % 2),
            "constant": "x",
            "mixed": [1, "a"][number % 2],
            "vector": rng.random(3).tolist(),
            "words": ["a", "b"][: 1 + number % 2],
            "size": number % 3,
            "mail": f"{number}@example.com",
        }

    expected = {"flag": "yes/no", "mixed": "category", "number": "number", "size": "number"}
    assert types(grown(row)) == {**expected, "vector": "vector", "words": "words"}


def test_a_column_keeps_its_features_and_new_ones_follow() -> None:
    before = grown(lambda row: {"age": row, "country": ["de", "fr"][row % 2]})
    after = grow_encoder(before, observed(lambda row: {"age": row, "country": "it", "segment": row % 5}))
    assert after.news == ("country (1 more level)", "segment (number)")
    age, country, segment = after.encoder.columns
    assert age == before.columns[0]
    assert (country.levels, segment.missing) == (("de", "fr", "it"), True)  # type: ignore[union-attr]
    visitor = {"age": 30, "country": "fr"}
    carried = after.encoder.carry_over(before, before.encode_one(visitor), {"segment": 3})
    assert np.array_equal(carried, after.encoder.encode_one({**visitor, "segment": 3}))


def test_nothing_grows_where_all_is_expressed() -> None:
    def row(number: int) -> dict[str, Any]:
        return {"age": number, "country": ["de", "fr"][number % 2], "on": number % 3 > 0}

    before = grown(row)
    after = grow_encoder(before, observed(row))
    assert (after.encoder, after.news) == (before, ())


@pytest.mark.parametrize(("later", "kind"), [("none", "category"), ([1.0, 2.0], "vector")])
def test_a_type_that_was_wrong_gives_way_to_another(later: Any, kind: str) -> None:
    before = grown(lambda row: {"size": row})
    new = ["small", "large"] if later == "none" else [later, [3.0, 4.0]]
    for n_new in (FEWEST_VISITORS - 1, 99):  # too few visitors; fewer than half of the values
        strays = observed(lambda row, n_new=n_new: {"size": new[row % 2] if row < n_new else row})  # type: ignore[misc]
        assert grow_encoder(before, strays).encoder == before
    mixed = grow_encoder(before, observed(lambda row: {"size": new[row % 2] if row < 120 else row}))
    assert mixed.news == (f"size ({kind}, not number)",)
    assert types(mixed.encoder) == {"size": kind}


def test_a_range_that_was_too_narrow_gives_way_to_a_wider_one() -> None:
    before = grown(lambda row: {"price": row / 200})
    after = grow_encoder(before, observed(lambda row: {"price": 10.0 * row})).encoder
    assert after.encode_one({"price": 500.0})[0] < after.encode_one({"price": 1_500.0})[0]


@pytest.mark.parametrize("extreme", [8e8, -8e8])
@pytest.mark.parametrize("log_normal", [False, True])
def test_a_visitor_who_sends_extreme_numbers_does_not_set_a_range(extreme: float, log_normal: bool) -> None:
    """Of 250 requests 50 are those of one visitor; the others' features spread nearly as without it."""
    numbers = np.random.default_rng(0).normal(10.0, 1.0, 200)
    if log_normal:
        numbers = np.exp(numbers / 2.0)
    honest = [{"number": float(number)} for number in numbers]
    names = [f"v{row}" for row in range(200)]
    usual = grow_encoder(Encoder(), Observations(honest, names)).encoder
    rows = [*honest, *[{"number": extreme}] * 50]
    attacked = grow_encoder(Encoder(), Observations(rows, [*names, *["hostile"] * 50])).encoder
    spreads = [np.std([encoder.encode_one(row)[0] for row in honest]) for encoder in (usual, attacked)]
    assert spreads[0] == pytest.approx(1.0, rel=0.05)
    assert spreads[1] > 0.35
    assert abs(attacked.encode_one({"number": extreme})[0]) < 5.0


def test_a_visitor_who_sends_long_lists_does_not_set_their_scale() -> None:
    lists = np.random.default_rng(0).normal(size=(200, 4)).tolist()
    names = [f"v{row}" for row in range(200)]
    rows = [*[{"text": one} for one in lists], *[{"text": [8e8, 0.0, 0.0, 0.0]}] * 50, {"text": None}]
    encoder = grow_encoder(Encoder(), Observations(rows, [*names, *["hostile"] * 51])).encoder
    norms = [np.linalg.norm(encoder.encode_one({"text": one})) for one in lists]
    assert 1.0 < np.mean(norms) < 2.0
    assert np.linalg.norm(encoder.encode_one({"text": [8e8] * 4})) < 2.0 * max(norms)


def test_what_few_visitors_had_is_in_no_schema() -> None:
    """One visitor who comes often, and 19 who share a word, against 20 who do."""

    def row(number: int) -> dict[str, Any]:
        return {"mail": f"{number % 19}@example.com", "town": ["rare", "often"][number % 2 and number % 40 < 39]}

    few = FEWEST_VISITORS - 1
    assert grown(row, n=400, visitors=few) == Encoder()
    enough = grown(lambda number: {"town": "rare" if number < few else "often"}, n=400)
    assert types(enough) == {"town": "category"}
    assert enough.columns[0].levels == ("often",)  # type: ignore[union-attr]
    again = grown(lambda number: {"town": "rare" if number <= few else "often"}, n=400)
    assert again.columns[0].levels == ("often", "rare")  # type: ignore[union-attr]


def test_no_number_of_a_visitor_is_a_bound() -> None:
    rng = np.random.default_rng(1)
    incomes = [round(float(income), 2) for income in np.exp(rng.normal(10.0, 0.8, 400))]
    encoder = grown(lambda row: {"income": incomes[row], "at": incomes[row] - 40_000.0}, n=400)
    text = encoder.model_dump_json()
    assert types(encoder) == {"at": "number", "income": "number"}
    assert not [income for income in incomes if f"{income:.2f}"[:-1] in text or f"{income - 40_000.0:.1f}" in text]


def test_hostile_requests_do_not_let_a_schema_grow_without_bounds() -> None:
    columns = grown(lambda row: {f"column {number}": row % 7 for number in range(1_000)})
    assert len(columns.columns) == MOST_COLUMNS
    encoder = grown(lambda row: {"country": ["de", "fr"][row % 2]})
    for round_number in range(4):
        flood = observed(lambda row, base=round_number: {"country": f"{base} {row % 60}"}, n=2_000)  # type: ignore[misc]
        encoder = grow_encoder(encoder, flood).encoder
    assert len(encoder.columns[0].levels) == MOST_LEVELS  # type: ignore[union-attr]


def test_a_schema_that_regrows_keeps_its_bound_of_features() -> None:
    """Numbers that become long lists, and 40 categories that get levels."""
    before = grown(lambda row: {"size": row})
    long = observed(lambda row: {"size": [float(row)] * (MOST_FEATURES + 1)})
    assert grow_encoder(before, long) == (before, ())
    wide = grow_encoder(before, observed(lambda row: {"size": [float(row)] * (MOST_FEATURES - 1)}))
    assert wide.encoder.width == MOST_FEATURES  # with one feature for missing ones
    names = [f"column {number}" for number in range(MOST_COLUMNS)]
    encoder = grown(lambda row: dict.fromkeys(names, "a"))
    levels = observed(lambda row: dict.fromkeys(names, f"level {row % 45}"), n=2_000)
    encoder = grow_encoder(encoder, levels).encoder
    assert MOST_FEATURES - 50 < encoder.width <= MOST_FEATURES


def test_times_stay_times_where_a_few_are_words() -> None:
    """What a model keeps of a time is read again, so that it counts beside what it cannot express."""
    before = grown(lambda row: {"at": f"2026-07-{1 + row % 28:02}T{row % 24:02}:{row % 60:02}:00"})
    column = before.columns[0]
    assert column.type == "time"

    def row(number: int) -> dict[str, Any]:
        if number < 50:
            return {"at": ["yesterday", "today"][number % 2]}
        time = f"2026-07-{1 + number % 28:02}T{number % 24:02}:{number % 60:02}:00"
        again = column.decode_one(np.array(column.encode_one(time)))
        assert column.encode_one(again) == column.encode_one(time)
        return {"at": again}

    assert grow_encoder(before, observed(row, n=2_000)) == (before, ())


def test_no_list_of_a_visitor_sets_a_bound() -> None:
    lists = [[float(number) * 1.2345, 17.3] for number in range(400)]
    lists[7][0] = 9_968_015_249.0
    column = grown(lambda row: {"taste": lists[row]}, n=400).columns[0]
    assert isinstance(column, VectorColumn)
    bounds = (column.scale, column.reach, column.longest or 0.0)
    assert tuple(float(f"{number:.2g}") for number in bounds) == bounds


def test_columns_beyond_those_that_are_tried_keep_out_none_that_come_more_often() -> None:
    """Of 2,000 names that clients make up, the shop's own comes most often."""
    encoder = grown(
        lambda row: {**{f"junk {(row * 7 + n) % 2_000}": n for n in range(50)}, "segment": row % 3}, n=2_000
    )
    assert "segment" in encoder.names

"""Tables as they come from a shop become Records, or the row and column that stands in the way is named."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.api.shops import import_log
from zoosim.core.action_space import RANKINGS
from zoosim.core.errors import ConfigError, DataError
from zoosim.logs.parse import fitted_schema, read_log

MAPPING = """
columns: {decision_id: request, time: at, user_id: customer, action: item, propensity: p, reward: click}
features: {age: , country: {fewest_visitors: 1}}
keep: [p_new]
"""
HEAD = "request,at,customer,item,p,click,age,country,p_new"
ROWS = [
    "r0,2026-03-01T10:00:00Z,ann,B7,0.5,1,34,de,0.25",
    "r1,2026-03-01T10:00:01+00:00,bob,A1,0.25,0,51,fr,0.5",
    "r2,2026-03-01T10:00:02Z,ann,B7,0.5,0,34,de,0.25",
    "r3,2026-03-01T10:00:03Z,cid,C2,0.125,1,19,it,0",
]
FR = [0, 1, 0, 0]
CLIPPED = (51 - 34.5) / np.sqrt(128.25)
"""The largest age of ROWS, less their mean, over their standard deviation."""


def written(folder: Path, rows: list[str], mapping: str = MAPPING) -> tuple[Path, Path, Path]:
    (folder / "log.csv").write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8")
    (folder / "map.yaml").write_text(mapping, encoding="utf-8")
    return folder / "log.csv", folder / "map.yaml", folder / "log.parquet"


def check(path: Path) -> None:
    log = read_log(path, columns=["p_new"])
    assert log.actions.tolist() == [1, 0, 1, 2]
    assert log.propensities.tolist() == [0.5, 0.25, 0.5, 0.125]
    assert log.rewards.tolist() == [1, 0, 0, 1]
    # Ages have a mean of 34.5 and a standard deviation of 11.32; de, fr, it and other countries have a column each.
    np.testing.assert_allclose(log.features[:, 0], (np.array([34, 51, 34, 19]) - 34.5) / np.sqrt(128.25))
    assert log.features[:, 1:].tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]
    assert log.columns["p_new"].tolist() == [0.25, 0.5, 0.25, 0.0]
    assert log.user_ids is not None
    assert log.times is not None
    assert log.user_ids[0] == log.user_ids[2] != log.user_ids[1]
    assert np.diff(log.times).tolist() == [1_000_000] * 3
    assert log.n_actions == 3


def test_csv_parquet_and_frames_become_the_same_records(tmp_path: Path) -> None:
    table, mapping, out = written(tmp_path, ROWS)
    imported = import_log(table, mapping, out)
    assert (imported.skipped, imported.drift, imported.notes) == ({}, {}, {})
    check(out)
    frame = pl.read_csv(table)
    frame.write_parquet(tmp_path / "table.parquet")
    for given in (frame, tmp_path / "table.parquet"):
        import_log(given, mapping, tmp_path / "other.parquet")
        check(tmp_path / "other.parquet")
    records = pl.read_parquet(out)
    assert records["product_id"].to_list() == ["B7", "A1", "B7", "C2"]
    assert records["time"].dtype == pl.Datetime("us", "UTC")


@pytest.mark.parametrize(
    ("old", "new", "column", "expected"),
    [
        ("0.25,0,51", "0,0,51", "p", "got '0', expected above 0"),
        ("0.25,0,51", "1.5,0,51", "p", "got '1.5'"),
        ("0.25,0,51", "nan,0,51", "p", "got nothing, expected a value"),
        ("0.25,0,51", "abc,0,51", "p", "got 'abc', expected a number"),
        ("0.25,0,51", "0.25,yes,51", "click", "got 'yes'"),
        ("0.25,0,51", "0.25,,51", "click", "got nothing"),
        ("r1,", "r0,", "request", "got 'r0', expected an id that no earlier row has"),
        ("A1", "", "item", "got nothing"),
        ("10:00:01+00:00", "10:61:01+00:00", "at", "expected a time"),
    ],
)
def test_a_bad_row_is_named_in_the_words_of_the_table(
    tmp_path: Path, old: str, new: str, column: str, expected: str
) -> None:
    rows = [row.replace(old, new) if number == 1 else row for number, row in enumerate(ROWS)]
    table, mapping, out = written(tmp_path, rows)
    with pytest.raises(DataError, match=rf"log.csv: row 1, column {column}: ") as caught:
        import_log(table, mapping, out)
    assert expected in str(caught.value)
    assert not out.exists()
    assert sum(import_log(table, mapping, out, skip_bad=True).skipped.values()) == 1
    assert len(read_log(out)) == 3


@pytest.mark.parametrize(
    ("old", "new", "age", "country", "drift"),
    [
        ("0.25,0,51", "0.25,0,old", 0.0, FR, {"age": "1 of 4 values are new (old)"}),
        ("0.25,0,51", "0.25,0,inf", 0.0, FR, {"age": "1 of 4 values are new (inf)"}),
        ("0.25,0,51", "0.25,0,", 0.0, FR, {"age": "1 of 4 values are missing, none was"}),
        ("0.25,0,51", "0.25,0,99", CLIPPED, FR, {"age": "1 of 4 values are new (99)"}),
        ("51,fr", "51,", CLIPPED, [0, 0, 0, 0], {"country": "1 of 4 values are missing, none was"}),
        ("51,fr", "51,es", CLIPPED, [0, 0, 0, 1], {"country": "1 of 4 values are new (es)"}),
    ],
)
def test_what_a_table_was_not_fitted_to_is_encoded_and_counted_as_drift(
    tmp_path: Path, old: str, new: str, age: float, country: list[int], drift: dict[str, str]
) -> None:
    typed = MAPPING.replace("age: ", "age: number")
    table, mapping, out = written(tmp_path, ROWS, typed)
    import_log(table, mapping, out)
    written(tmp_path, [row.replace(old, new) for row in ROWS], typed)
    later = tmp_path / "later.parquet"
    imported = import_log(table, mapping, later, like=out)
    assert (imported.skipped, imported.drift, imported.notes) == ({}, drift, {})
    assert read_log(later).features[1].tolist() == pytest.approx([age, *country])
    assert np.array_equal(read_log(later).features[0], read_log(out).features[0])


def test_missing_and_unreadable_values_get_a_feature_in_a_log_that_is_fitted_to_them(tmp_path: Path) -> None:
    rows = [row.replace("51,fr", "old,") for row in ROWS]
    table, mapping, out = written(tmp_path, rows, MAPPING.replace("age: ", "age: number"))
    note = "1 of 4 values are no numbers (row 1: 'old'), and count as missing"
    imported = import_log(table, mapping, out)
    assert (imported.skipped, imported.drift, imported.notes) == ({}, {}, {"age": note})
    fitted = fitted_schema(out)
    assert fitted is not None
    assert fitted.visitors.features == (
        *("age", "age is missing"),
        *("country is de", "country is it", "country is another", "country is missing"),
    )
    assert read_log(out).features[:, 1].tolist() == [0, 1, 0, 0]
    assert read_log(out).features[1].tolist() == [0, 1, 0, 0, 0, 1]


def test_mixed_time_zones_are_refused_even_when_bad_rows_are_skipped(tmp_path: Path) -> None:
    for new in ("10:00:02+01:00", "10:00:02"):
        rows = [row.replace("10:00:02Z", new) for row in ROWS]
        table, mapping, out = written(tmp_path, rows)
        with pytest.raises(DataError, match=r"row 2, column at: got .*, expected Z as in the rows before; 1 of 4 rows"):
            import_log(table, mapping, out, skip_bad=True)


def test_times_without_a_zone_are_taken_as_utc_unless_one_is_said(tmp_path: Path) -> None:
    rows = [row.replace("+00:00", "").replace("Z", "") for row in ROWS]
    table, mapping, out = written(tmp_path, rows)
    assert import_log(table, mapping, out).notes["at"].startswith("names no time zone, taken as UTC; if that is wrong")
    assert pl.read_parquet(out)["time"].dt.hour().to_list() == [10] * 4
    assert "at" not in import_log(table, mapping, out, time_zone="Europe/Berlin").notes
    assert pl.read_parquet(out)["time"].dt.hour().to_list() == [9] * 4
    with pytest.raises(ConfigError, match="time_zone: got 'Mars', expected a name such as Europe/Berlin"):
        import_log(table, mapping, out, time_zone="Mars")
    berlin = written(tmp_path, rows, MAPPING + "time_zone: Europe/Berlin\n")[1]
    import_log(table, berlin, out)
    assert pl.read_parquet(out)["time"].dt.hour().to_list() == [9] * 4
    with pytest.raises(ConfigError, match="time_zone: got it twice"):
        import_log(table, berlin, out, time_zone="UTC")
    with pytest.raises(ConfigError, match="time_zone: got 'Mars'"):
        import_log(table, written(tmp_path, rows, MAPPING + "time_zone: Mars\n")[1], out)


def test_actions_outside_those_of_the_mapping_are_refused(tmp_path: Path) -> None:
    table, mapping, out = written(tmp_path, ROWS, MAPPING + "actions: [A1, B7]\n")
    with pytest.raises(DataError, match=r"row 3, column item: got 'C2', expected one of the 2 candidates \(A1, B7\)"):
        import_log(table, mapping, out)


def test_what_is_wrong_with_table_and_mapping_is_said(tmp_path: Path) -> None:
    table, mapping, out = written(tmp_path, ROWS)
    cases: list[tuple[Any, Any, str]] = [
        (table, {"columns": {"propensity": "p", "reward": "click"}}, "columns.action: missing"),
        (table, {"columns": {"action": "item"}}, "expected either columns.reward, the one reward, or rewards by name"),
        (
            table,
            {"columns": {"action": "item", "reward": "click"}, "rewards": {"click": "click"}},
            "expected either columns.reward, the one reward, or rewards by name",
        ),
        (table, {"columns": {"action": "itm", "propensity": "p", "reward": "click"}}, "no column 'itm' .did you mean"),
        (tmp_path / "none.csv", mapping, "no such file"),
        (3, mapping, "got a int, expected a CSV or Parquet file or a data frame"),
    ]
    for given, with_mapping, words in cases:
        with pytest.raises((DataError, ConfigError), match=words):
            import_log(given, with_mapping, out)
    with pytest.raises(DataError, match="cannot be read as Parquet, zoosim import reads other tables"):
        read_log(table)
    (tmp_path / "latin.csv").write_bytes("item,p,click\ncafé,0.5,1\n".encode("latin1"))
    with pytest.raises(DataError, match="cannot be read as a table, save it as UTF-8"):
        import_log(tmp_path / "latin.csv", mapping, out)
    table.write_text(table.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(DataError, match=r"row 3, column item: got nothing, the last line has 3 of 9.*truncated"):
        import_log(table, mapping, out)


@pytest.mark.parametrize("end", ["\n", "\n\n", "\n\r\n", '\nr4,2026-03-01T10:00:04Z,dan,A1,0.5,0,20,de,"0.\n5"\n'])
def test_blank_lines_and_words_of_two_lines_at_the_end_are_no_truncation(tmp_path: Path, end: str) -> None:
    table, mapping, out = written(tmp_path, ROWS, MAPPING.replace("keep: [p_new]", ""))
    table.write_text("\n".join([HEAD, *ROWS]) + end, encoding="utf-8")
    assert import_log(table, mapping, out).skipped == {}
    assert len(read_log(out)) == 4 + end.count("r4")


def test_a_table_is_never_written_over(tmp_path: Path) -> None:
    table, mapping, _ = written(tmp_path, ROWS)
    own = tmp_path / "own.parquet"
    pl.read_csv(table).write_parquet(own)
    before = own.read_bytes()
    with pytest.raises(ConfigError, match="as the table and as the log, expected another file"):
        import_log(own, mapping, own)
    assert own.read_bytes() == before


def test_names_twice_and_those_of_records_are_refused(tmp_path: Path) -> None:
    columns = {"action": "item", "propensity": "p", "reward": "click"}
    table = written(tmp_path, ROWS)[0]
    wrong: list[tuple[Any, str]] = [
        ({"columns": columns, "actions": ["A1", "B7", "C2", "A1"]}, "schema.actions: got 'A1' twice"),
        ({"columns": columns, "keep": ["p_new", "p_new"]}, "schema.keep: got 'p_new' twice"),
        ({"columns": columns, "keep": ["action"]}, "schema.keep: got 'action', a name that Records use"),
        ({"columns": columns, "keep": ["step"]}, "schema.keep: got 'step', a name that Records use"),
        (3, "schema: got 3, expected a YAML file or a mapping"),
        ([1], "schema: got .1., expected a YAML file or a mapping"),
        ({"columns": {"action": "item"}, "rewards": {"user": "click"}}, "schema.rewards: got 'user', a name that Rec"),
    ]
    with_own = pl.read_csv(table).with_columns(action=pl.lit(1))
    for mapping, words in wrong:
        with pytest.raises(ConfigError, match=words):
            import_log(with_own, mapping, tmp_path / "log.parquet")


def test_names_of_the_lives_of_visitors_are_free(tmp_path: Path) -> None:
    """Records use them only where all are there; an e-mail's reward may be a visit."""
    table = pl.read_csv(written(tmp_path, ROWS)[0]).with_columns(ended=pl.lit(0.5))
    mapping = {"columns": {"action": "item", "propensity": "p"}, "rewards": {"visit": "click"}, "keep": ["ended"]}
    import_log(table, mapping, tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", columns=["ended"])
    assert log.objective == "visit"
    assert log.lives is None
    assert set(log.columns["ended"]) == {0.5}


def test_times_come_with_hours_alone_and_beyond_what_is_a_time(tmp_path: Path) -> None:
    """PostgreSQL writes +00; a number that no clock counts to is a bad row."""
    mapping = {"columns": {"action": "item", "propensity": "p", "reward": "click", "time": "at"}}
    frame = pl.DataFrame({"item": ["a", "b"], "p": [0.5, 0.5], "click": [0, 1]})
    for offset, hour in (("+00", 10), ("+02", 8), ("-05", 15), ("+02:00", 8), ("-0530", 15)):
        at = pl.Series("at", [f"2026-03-01 10:00:00{offset}", f"2026-03-01 10:00:01.5{offset}"])
        import_log(frame.with_columns(at), mapping, tmp_path / "log.parquet")
        assert pl.read_parquet(tmp_path / "log.parquet")["time"].dt.hour().to_list() == [hour] * 2
    for wrong in (float("inf"), 1e300):
        odd = frame.with_columns(at=pl.Series([1.0, wrong]))
        with pytest.raises(DataError, match=r"row 1, column at: got .*, expected a time"):
            import_log(odd, {**mapping, "epoch": "s"}, tmp_path / "log.parquet")


PLAIN = {"columns": {"action": "item", "propensity": "p", "reward": "click"}}
TIMED: dict[str, Any] = {"columns": {**PLAIN["columns"], "time": "at"}}
TWO = pl.DataFrame({"item": ["a", "b"], "p": [0.5, 0.5], "click": [0, 1]})


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (["17", "18"], r"but '17'; say in a schema what it counts .epoch: s"),
        ([1700000000, 1700000000000], r"column at holds 1700000000; say in a schema what it counts .epoch: s"),
        (["03/04/2024", "05/04/2024"], r"row 0, .*'03/04/2024', and no row tells day from month; say dates: day-first"),
        (["13/04/2024", "04/13/2024"], r"'13/04/2024' in row 0 and '04/13/2024' in row 1, expected day and month in"),
        (["yesterday", "today"], r"but 'yesterday'; expected such as 2026-03-01T10:00Z"),
        (["12:00", "13:00"], r"but '12:00'; expected such as 2026"),
        (["noon:00Z", "noon:01Z"], r"row 0, column at: got 'noon:00Z', expected a time"),
        (pl.Series([None, None], dtype=pl.String), "row 0, column at: got nothing, expected a value"),
    ],
)
def test_a_column_without_times_is_refused_with_an_example(tmp_path: Path, times: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        import_log(TWO.with_columns(at=pl.Series(times)), TIMED, tmp_path / "log.parquet")


def test_days_and_counted_seconds_are_times(tmp_path: Path) -> None:
    columns: list[tuple[list[Any], dict[str, str]]] = [
        ([date(2026, 3, 1), date(2026, 3, 2)], {"time_zone": "UTC"}),
        (["1772323200", "1772409600"], {"epoch": "s"}),
        (["1772323200", "1772409600"], {}),
        ([1772323200000, 1772409600000.0], {}),
        ([1772323200000000, 1772409600000000], {}),
        (["03/01/2026", "03/02/2026"], {"time_zone": "UTC", "dates": "month-first"}),
        (["1.3.2026 23:59", "2.3.2026 0:00"], {"time_zone": "UTC", "dates": "day-first"}),
        (["03/01/2026 11:59 PM", "03/02/2026, 12:00 am", "03/13/2026 0:00"], {"time_zone": "UTC"}),
        (["1-3-2026 01:00:00.5+01:00", "2-3-2026 01:00:00+01:00", "13-3-2026 01:00:00+01:00"], {}),
    ]
    for times, options in columns:
        table = pl.concat([TWO, TWO]).head(len(times)).with_columns(at=pl.Series(times, strict=False))
        import_log(table, {**TIMED, **options}, tmp_path / "log.parquet")
        logged = pl.read_parquet(tmp_path / "log.parquet")["time"].dt
        assert logged.day().to_list() == [1, 2, 13][: len(times)]
        assert set(logged.strftime("%Y-%m")) == {"2026-03"}


@pytest.mark.parametrize(("epoch", "year"), [("s", "55,841"), ("ms", "2,024"), ("us", "1970")])
def test_counted_times_are_never_far_in_the_future(epoch: str, year: str, tmp_path: Path) -> None:
    table = TWO.with_columns(at=pl.Series([1700000000000, 1700000001000]))
    schema = {**TIMED, "epoch": epoch}
    if epoch == "s":
        with pytest.raises(DataError, match=rf"got 1700000000000, with epoch: s the year {year}; it looks like ms"):
            import_log(table, schema, tmp_path / "log.parquet")
        return
    import_log(table, schema, tmp_path / "log.parquet")
    assert abs(pl.read_parquet(tmp_path / "log.parquet")["time"].dt.year()[0] - int(year.replace(",", ""))) <= 1


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_whole_numbers_are_the_same_ids_however_they_are_written(form: str, tmp_path: Path) -> None:
    ids = {"item": ["2", "2.0", "3", "3.0"], "who": ["7", "7.0", "8", "7"], "gone": ["4.0|3", "3.0", "2", "2.0|4"]}
    table = pl.DataFrame({**ids, "p": [0.5] * 4, "click": [1, 0, 0, 1]})
    items = pl.DataFrame({"id": ["4", "3.0", "2.0"], "price": ["1", "2", "3"]})
    if form == "parquet":
        numbers = pl.Series([[4.0, 3.0], [3.0], [2.0], [2.0, 4.0]])
        table = table.with_columns(pl.col("item", "who").cast(pl.Float64), gone=numbers)
        items = items.with_columns(pl.col("id").cast(pl.Float64))
    for frame, name in ((table, "table"), (items, "items")):
        getattr(frame, f"write_{form}")(tmp_path / f"{name}.{form}")
    columns = {**PLAIN["columns"], "action": "item", "user_id": "who", "unavailable": "gone"}
    described = {"table": tmp_path / f"items.{form}", "id": "id", "features": {"price": "number"}}
    schema = {"columns": columns, "actions": [2, "3", "4.0"], "products": described}
    import_log(tmp_path / f"table.{form}", schema, tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet")
    assert log.names == ("2", "3", "4")
    assert log.actions.tolist() == [0, 0, 1, 1]
    assert log.user_ids is not None
    assert log.user_ids[[0, 0, 2]].tolist() == log.user_ids[[1, 3, 2]].tolist()
    assert log.user_ids[0] != log.user_ids[2]
    assert log.available(0, 4).astype(int).tolist() == [[1, 0, 0], [1, 0, 1], [0, 1, 1], [0, 1, 0]]


def test_a_stray_word_among_numbers_is_said_with_its_row(tmp_path: Path) -> None:
    ages = [str(20 + number % 3) for number in range(100)]
    ages[17] = "unknown"
    table = pl.concat([TWO] * 50).with_columns(age=pl.Series(ages))
    words = "1 of 100 values are no numbers (row 17: 'unknown')"
    for features in (["age"], {"age": "number"}):
        imported = import_log(table, {**PLAIN, "features": features}, tmp_path / "log.parquet")
        assert imported.notes == {"age": f"{words}, and count as missing"}
        assert read_log(tmp_path / "log.parquet").features.shape == (100, 2)
    assert words in import_log(table, None, tmp_path / "log.parquet").notes["age"]
    many = table.with_columns(age=pl.Series(["old"] * 20 + ages[20:]))
    imported = import_log(many, {**PLAIN, "features": ["age"]}, tmp_path / "log.parquet")
    assert imported.notes["age"].startswith("is taken for words, though 20 of 100 values are no numbers (row 0: 'old')")
    assert not import_log(many, {**PLAIN, "features": {"age": "category"}}, tmp_path / "log.parquet").notes


@pytest.mark.parametrize("clicks", [["no", "Yes"], ["False", "True"], [False, True], ["0", "1"]])
def test_rewards_may_be_yes_and_no(tmp_path: Path, clicks: list[Any]) -> None:
    import_log(TWO.with_columns(click=pl.Series(clicks)), PLAIN, tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet").rewards.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("word", ["N/A", "n/a", "<NA>", "NaT"])
def test_words_for_nothing_are_nothing_in_a_table(tmp_path: Path, word: str) -> None:
    (tmp_path / "log.csv").write_text(f"item,p,click\na,0.5,1\nb,0.5,{word}\n", encoding="utf-8")
    with pytest.raises(DataError, match="row 1, column click: got nothing"):
        import_log(tmp_path / "log.csv", PLAIN, tmp_path / "log.parquet")


VISITS = {"decision_id": "visit", "position": "place", "action": "item", "propensity": "p", "reward": "click"}
RANKED: dict[str, Any] = {
    "columns": VISITS,
    "features": {"age": "number"},
    "keep": ["p_new"],
    "rankings": True,
}
SHOWN = pl.DataFrame(
    {
        "visit": ["v0", "v0", "v1", "v1"],
        "place": [1, 2, 2, 1],
        "item": ["B7", "A1", "C2", "B7"],
        "p": [0.5, 0.25, 0.5, 0.125],
        "click": [1, 0, 0, 1],
        "age": [30, 30, 40, 40],
        "p_new": [0.25, 0.5, 0.5, 1.0],
    }
)


def test_rankings_are_imported_and_judged(tmp_path: Path) -> None:
    """Weights of v0 are .5 and .5 x 2 = 1, of v1 8 and 8: a click at .5 and one at 8 make 4.25 a visit."""
    import_log(SHOWN, RANKED, tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", action_space=RANKINGS, columns=["p_new"])
    assert log.actions.tolist() == [[1, 0], [1, 2]]
    assert log.rewards.tolist() == [[1, 0], [1, 0]]
    assert log.features.tolist() == [[-1], [1]]
    found = zoosim.evaluate(tmp_path / "log.parquet", ["column:p_new"], rankings=True, estimators=["cascade-ips"])
    assert found.results[0].value == pytest.approx(4.25)
    with pytest.raises(DataError, match="row 1, column visit: got 'v0', expected an id that no earlier row has"):
        import_log(SHOWN, {**RANKED, "rankings": False}, tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"place": [1, 1, 2, 1]}, "row 1, column place: got 1, expected 1, 2, ... in each visit"),
        (
            {"visit": ["v0", "v0", "v0", "v1"], "place": [1, 2, 3, 1], "age": 30},
            "row 3, column visit: got 'v1', expected one that 3 rows share",
        ),
        ({"item": ["B7", "B7", "C2", "B7"]}, "row 1, column item: got 'B7', expected one that the visit does not show"),
        ({"age": [30, 31, 40, 40]}, "row 1, column age: got 31, expected the same in all rows of a visit"),
    ],
)
def test_broken_visits_are_refused_by_the_tables_own_names(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    broken = SHOWN.with_columns(**{name: np.broadcast_to(values, 4) for name, values in change.items()})
    with pytest.raises(DataError, match=words):
        import_log(broken, RANKED, tmp_path / "log.parquet")
    assert not (tmp_path / "log.parquet").exists()


def test_rankings_need_a_visit_and_a_position(tmp_path: Path) -> None:
    columns = {name: own for name, own in VISITS.items() if name != "position"}
    with pytest.raises(ConfigError, match="rankings: got no column of decision_id or position"):
        import_log(SHOWN, {**RANKED, "columns": columns}, tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("item\tclick\n2\t1\n", "has tabs between its columns, expected commas"),
        ("item;click\n2;1\n", "has semicolons between its columns, expected commas"),
        ('{"item": 2, "click": 1}\n', "holds JSON, expected CSV or Parquet"),
        ("item,click,item \n2,1,3\n", "calls two columns 'item', expected each name once"),
    ],
)
def test_what_is_no_csv_file_is_told_by_its_first_line(content: str, message: str, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(content)
    with pytest.raises(DataError, match=f"table.csv: {message}"):
        zoosim.import_log(
            table, {"columns": {"action": "item"}, "rewards": {"click": "click"}}, tmp_path / "log.parquet"
        )


def test_a_table_that_is_no_log_is_told_with_its_columns(tmp_path: Path) -> None:
    table = tmp_path / "table.parquet"
    pl.DataFrame({"item": [1], "click": [0]}).write_parquet(table)
    with pytest.raises(DataError, match="column action is missing, a log has action, reward; it has item, click; zoos"):
        zoosim.evaluate(table, ["random"])

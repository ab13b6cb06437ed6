"""The tables of shops like yours."""

from benchmarks.quality.kinds_of_shops import tables


def test_a_table_per_trait_says_who_is_ahead_by_how_much() -> None:
    lead = {"mean": 0.1, "low": -0.05, "high": 0.25}
    row = {"seeds": [1, 2], "best": "a", "second": "b", "asks": "", "policies": {"a": 0.5, "b": 0.4}}
    small = {**row, "trait": "size", "value": "small", "lead": lead}
    large = {**row, "trait": "size", "value": "large", "lead": {"mean": 0.1, "low": None, "high": None}}
    late = {**row, "trait": "delay", "value": "late", "lead": None}
    assert list(tables([small, large, late])) == [
        "",
        "| size | shops | ahead | lead, points | `a` | `b` |",
        "| --- | --- | --- | --- | --- | --- |",
        "| small | 2 | `a` | 10.0 (-5.0 to 25.0) | 50.0% | 40.0% |",
        "| large | 2 | `a` | 10.0 | 50.0% | 40.0% |",
        "",
        "| delay | shops | ahead | lead, points | `a` | `b` |",
        "| --- | --- | --- | --- | --- | --- |",
        "| late | 2 | `a` |  | 50.0% | 40.0% |",
    ]

"""Logs that say where candidates came from, and how likely each was: read, kept, written; what errs is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.worlds.test_check import Bookshop
from zoosim import CandidateSource, Context
from zoosim.arena.loop import play
from zoosim.arena.recording import to_records, write_records
from zoosim.core.errors import DataError, WorldError
from zoosim.logs.parse import read_log, to_log
from zoosim.logs.write import to_records as records_of_log
from zoosim.off_policy.evaluate import evaluate
from zoosim.policies.registry import find_class


def frame(**changes: Any) -> pl.DataFrame:
    """Four visits, each with candidates of its own, from two sources."""
    columns = {
        "candidates": [[0, 3], [3, 1, 2], [0, 3], [2]],
        "candidate_propensities": [[0.25, 0.75], [0.1, 0.4, 0.5], [0.25, 0.75], [1.0]],
        "action": [0, 2, 3, 2],
        "propensity": [0.25, 0.5, 0.75, 1.0],
        "reward": [1.0, 0.0, 1.0, 0.0],
        "source": ["nearest", "pool", "nearest", "nearest"],
        "source_version": [1, 1, 2, 1],
        "source_propensity": [0.9, 0.1, 0.9, 0.9],
        "source_products": [4, 4, None, 3],
        **changes,
    }
    return pl.DataFrame(columns, strict=False)


def test_sources_and_distributions_are_read_and_go_with_their_rows() -> None:
    log = to_log(frame())
    assert log.candidate_sources is not None
    assert log.candidate_propensities is not None
    names, source, propensities, products = log.candidate_sources
    assert [names[number] for number in source] == [("nearest", "1"), ("pool", "1"), ("nearest", "2"), ("nearest", "1")]
    assert propensities.tolist() == [0.9, 0.1, 0.9, 0.9]
    assert products.tolist() == [4, 4, 0, 3]
    np.testing.assert_allclose(log.candidate_propensities, [0.25, 0.75, 0.1, 0.4, 0.5, 0.25, 0.75, 1.0])
    part = log.rows(np.array([3, 1]))
    assert part.candidate_sources is not None
    assert part.candidate_propensities is not None
    assert part.candidate_sources.source.tolist() == [source[3], source[1]]
    np.testing.assert_allclose(part.candidate_propensities, [1.0, 0.1, 0.4, 0.5])
    bare = to_log(frame().drop("candidate_propensities", "source_propensity"))
    assert (bare.candidate_sources, bare.candidate_propensities) == (None, None)


def test_what_could_be_shown_is_told_where_the_log_knows_it() -> None:
    """All products where as many could be shown as there are, the candidates of requests, and else nothing."""
    log = to_log(frame())
    masks = [log.could_be_shown(visit) for visit in range(4)]
    assert [mask if mask is None else mask.tolist() for mask in masks] == [[True] * 4, [True] * 4, None, None]
    named = to_log(frame(source=["request", "catalogue", "nearest", "nearest"]))
    masks = [named.could_be_shown(visit) for visit in range(2)]
    assert [np.flatnonzero(mask).tolist() for mask in masks if mask is not None] == [[0, 3], [1, 2, 3]]
    gone = to_log(frame().select("action", "reward", unavailable=pl.Series([[1], [], [1, 2], [0]])))
    masks = [gone.could_be_shown(visit) for visit in range(4)]
    assert [np.flatnonzero(mask).tolist() for mask in masks if mask is not None] == [
        [0, 2, 3],
        [0, 1, 2, 3],
        [0, 3],
        [1, 2, 3],
    ]
    assert to_log(frame().drop("source", "candidate_propensities")).could_be_shown(0) is None


def test_what_was_read_is_written_again() -> None:
    log = to_log(frame())
    named = zoosim.off_policy.Log(**{**vars(log), "names": tuple("abcd")})
    again, _ = records_of_log(named, {})
    kept = ("source", pl.col("source_version").cast(pl.String), "source_propensity", "candidates")
    expected = frame().select(*kept, pl.col("source_products").fill_null(0))
    assert again.select(expected.columns).cast({"candidates": pl.List(pl.Int64)}).equals(expected)
    assert again["candidate_propensities"].to_list()[1] == pytest.approx([0.1, 0.4, 0.5])


def test_the_log_itself_is_judged_by_what_it_says_of_all_candidates() -> None:
    """It earns what was earned, as it gives each logged product the logged propensity."""
    log = to_log(pl.concat([frame()] * 30))
    found = evaluate(log, {"logged too": "column:candidate_propensities"}, estimators=["ips", "dr"], compare=False)
    assert found.results[0].value == pytest.approx(0.5)
    assert found.results[0].mean_weight == pytest.approx(1.0)
    assert [row.estimator for row in found.results] == ["ips", "dr"]


def test_what_a_log_rounds_is_scaled_to_add_up_to_1() -> None:
    """Reading lets sums be off by 1e-5, judging by 1e-6."""
    rounded = [[0.250002, 0.750004], [0.1, 0.4, 0.5], [0.25, 0.75], [1.0]]
    log = to_log(pl.concat([frame(candidate_propensities=rounded)] * 30))
    found = evaluate(log, {"logged too": "column:candidate_propensities"}, estimators=["ips"], compare=False)
    assert found.results[0].value == pytest.approx(0.5, rel=1e-5)


def test_a_row_of_another_length_hides_no_other_bad_row() -> None:
    wrong = [[0.25, 0.7], [1.0], [0.25, 0.75], [1.0]]
    log = to_log(frame(candidate_propensities=wrong), skip_bad=True)
    assert log.row_numbers.tolist() == [2, 3]
    assert sum(log.skipped.values()) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": ["a", "a", None, "a"]}, "row 2, column source: got nothing, expected a value"),
        ({"source_propensity": [1.0, 0.0, 1.0, 1.0]}, "row 1, column source_propensity: got 0.0, expected above 0"),
        ({"source_products": [4, -1, 4, 4]}, "row 1, column source_products: got -1, expected 0 or more"),
        ({"source_products": [4, 4, 0.5, 4]}, "column source_products holds values of type Float64, expected whole"),
        ({"source": [1, 2, 3, 4]}, "column source holds values of type Int64, expected words"),
        ({"candidate_propensities": [[0.25, 0.75], [1.0], [0.25, 0.75], [1.0]]}, "row 1, .* expected one number for"),
        (
            {"candidate_propensities": [[0.25, 0.7], [0.1, 0.4, 0.5], [0.25, 0.75], [1.0]]},
            "row 0, column candidate_propensities: .* expected probabilities that add up to 1",
        ),
        (
            {"candidate_propensities": [[0.25, 0.75], [1.1, -0.6, 0.5], [0.25, 0.75], [1.0]]},
            "row 1, column candidate_propensities: .* expected numbers from 0",
        ),
        (
            {"candidate_propensities": [[0.25, 0.75], [0.1, 0.5, 0.4], [0.25, 0.75], [1.0]]},
            "row 1, column candidate_propensities: .* expected the row's propensity for its action",
        ),
        ({"candidates": [[0, 0], [3, 1, 2], [0, 3], [2]]}, "row 0, column candidates: .* expected each product once"),
    ],
)
def test_what_is_no_source_or_distribution_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        to_log(frame(**changes))
    with pytest.raises(DataError, match="column candidates is missing, which candidate_propensities belongs to"):
        to_log(frame().drop("candidates"))


class Retrieves(Bookshop):  # type: ignore[misc]
    """Says where each request's candidates came from."""

    source: Any = None

    def context(self, visit: Any) -> Context:
        return Context({**super().context(visit), "source": self.source})


def test_a_world_that_names_a_source_has_it_logged(tmp_path: Path) -> None:
    world = Retrieves(0, 20)
    world.source = CandidateSource("nearest", "7", 0.5)
    policy = find_class("random")(world.spec(20), np.random.default_rng(0))
    blocks = list(play(world, policy, 20, logged=True))
    write_records(tmp_path / "log.parquet", world, (to_records(world, block, "random", "1") for block in blocks))
    log = read_log(tmp_path / "log.parquet")
    assert log.candidate_sources is not None
    assert log.candidate_sources.names == (("nearest", "7"),)
    assert set(log.candidate_sources.propensities.tolist()) == {0.5}
    assert not log.candidates.are_lacking
    for propensity, products in ((0.0, 4), (0.5, -1), (0.5, 2.5)):
        world.source = CandidateSource("nearest", "7", propensity, products)  # type: ignore[arg-type]
        block = next(iter(play(world, policy, 20, logged=True)))
        with pytest.raises(WorldError, match=r"a context's source is .*, expected a zoosim\.CandidateSource with"):
            to_records(world, block, "random", "1")


def test_a_world_that_names_a_source_for_a_part_of_the_run_is_refused(tmp_path: Path) -> None:
    world = Retrieves(0, 20)
    world.source = CandidateSource("nearest", "7", 0.5)
    policy = find_class("random")(world.spec(20), np.random.default_rng(0))
    frames = []
    for part in (Bookshop(0, 20), world):
        frames += [to_records(part, block, "random", "1") for block in play(part, policy, 20, logged=True)]
    with pytest.raises(WorldError, match="contexts of a part of the run alone have a source"):
        write_records(tmp_path / "log.parquet", world, frames)
    assert not list(tmp_path.iterdir())

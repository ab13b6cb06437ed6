"""Numbers that are clipped: counted by column, and told."""

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.serving.shop import with_service
from zoosim.schema.encoder import fit_encoder
from zoosim.serving.bodies import DecideBody, SlotBody
from zoosim.serving.clipped import CLIPPED, ClippedColumns
from zoosim.serving.fresh import FIRST_REQUESTS
from zoosim.serving.service import Service


def table() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"age": rng.normal(40.0, 10.0, 200), "text": rng.normal(size=(200, 4)).tolist()}
    return pl.DataFrame({**columns, "country": ["de", "fr"] * 100})


def test_numbers_beyond_the_limits_are_counted_by_column_and_told_each_time_there_are_ten_times_as_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    encoder = fit_encoder(table(), dict.fromkeys(table().columns), "table")
    counts: Counter[str] = Counter()
    clipped = ClippedColumns(counts)
    with caplog.at_level(logging.WARNING, "zoosim.serving"):
        for row in table().iter_rows(named=True):
            if min(table()["age"]) < row["age"] < max(table()["age"]):
                clipped.note([encoder.read(row)])
        clipped.note([encoder.read({"age": None, "text": "no list", "country": 8e8}), encoder.read({"text": [8e8]})])
        assert not counts
        for _ in range(30):
            clipped.note([encoder.read({"age": 40.0}), encoder.read({"age": 8e8, "text": [2.2, 2.2, 2.2, 2.2]})])
        clipped.note([encoder.read({"age": -8e8})])
    assert clipped.by_column() == {"age": 31, "text": 30}
    assert counts == {CLIPPED: 31}
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "age (1), text (1)",
        "age (10), text (10)",
    ]


def test_a_service_says_which_numbers_it_clipped(tmp_path: Path) -> None:
    async def use(service: Service) -> None:
        ages = np.random.default_rng(0).normal(40.0, 10.0, FIRST_REQUESTS)
        for number, age in enumerate(ages.tolist()):
            await service.decide(DecideBody({"age": age}, ["a", "b"], visitor_id=f"{number}"))
        while service.is_warming_up:
            await service.tick()
            await asyncio.sleep(0.02)
        assert service.description()["clipped"] == {}
        slots = [SlotBody("top", {"age": -8e8}, "a", []), SlotBody("rest", {}, "b", [])]
        far = DecideBody({"age": 8e8}, ["a", "b"], decision_id="far")
        await service.decide(far)
        await service.decide(far)  # which is answered from the log
        await service.decide(DecideBody({"age": 40.0}, ["a", "b"]), slots=slots)
        assert service.description()["clipped"] == {"age": 2}
        assert service.counts[CLIPPED] == 2

    with_service(tmp_path, None, use)

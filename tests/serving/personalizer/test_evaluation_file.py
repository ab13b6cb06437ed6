"""The file of an evaluation is read as it was written, or refused."""

import os
from itertools import chain
from pathlib import Path

import pytest

from tests.fault.mutations import bit_flips, truncations
from zoosim.core.errors import DataError
from zoosim.serving.personalizer.evaluation_file import read_evaluation, write_evaluation

EVALUATION = {"id": "e1", "status": "completed", "policyResults": [{"name": "Online", "averageReward": 0.25}]}


@pytest.mark.parametrize("every", [pytest.param(10, id="short"), pytest.param(1, id="long", marks=pytest.mark.slow)])
def test_a_damaged_evaluation_is_refused(every: int, tmp_path: Path) -> None:
    path = tmp_path / "e1.json"
    write_evaluation(path, EVALUATION)
    assert read_evaluation(path) == EVALUATION
    content = path.read_bytes()
    copies = [*chain(bit_flips(content, 10_000, 0), truncations(content, 0, 0))][::every]
    for _, damaged in copies:
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="differs from what the service wrote; delete it"):
            read_evaluation(path)
    print(f"\nan evaluation: {len(copies):,} copies, all refused")


def test_a_pipe_in_the_place_of_an_evaluation_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "evaluation.json")
    with pytest.raises(OSError, match="expected a file, got a pipe"):
        read_evaluation(tmp_path / "evaluation.json")

"""Files that an earlier zoosim wrote (`tests/kept_files.py`) are read, and answer as they did then."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.kept_files import ANSWERS

ARCHIVE = Path(__file__).parent / "data" / "before_one_of_each.tar.xz"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    (folder / "service").chmod(0o700)
    return folder


@pytest.mark.parametrize("name", ANSWERS)
def test_kept_files_answer_as_they_did(name: str, kept: Path) -> None:
    expected = json.loads((kept / "answers.json").read_text())[name]
    assert_close(json.loads(json.dumps(ANSWERS[name](kept))), expected, name)


def test_another_answer_is_noticed() -> None:
    assert_close({"a": [1.0, "x"]}, {"a": [1.0 + 1e-9, "x"]}, "close")
    for other in ({"a": [1.0001, "x"]}, {"a": [1.0, "y"]}, {"a": [1.0]}, {"b": [1.0, "x"]}):
        with pytest.raises(AssertionError):
            assert_close(other, {"a": [1.0, "x"]}, "other")


def assert_close(answer: Any, expected: Any, place: str) -> None:
    """Compare numbers as another processor may round them, and all else exactly."""
    if isinstance(expected, dict):
        assert answer.keys() == expected.keys(), place
        for key in expected:
            assert_close(answer[key], expected[key], f"{place}, {key}")
    elif isinstance(expected, list):
        assert len(answer) == len(expected), place
        for number, (one, other) in enumerate(zip(answer, expected, strict=True)):
            assert_close(one, other, f"{place}, {number}")
    elif isinstance(expected, float):
        # The probabilities of `adaptive` count 256 draws, one of which may fall on the other side of a tie.
        tolerance = 0.01 if "adaptive" in place else 1e-6
        assert answer == pytest.approx(expected, rel=1e-6, abs=tolerance), place
    else:
        assert answer == expected, place

"""Logs that are kept (`tests/log_corpus.py`) come to the decisions and the states that they came to, to the bit."""

import json
import tarfile
from pathlib import Path

import pytest

from tests.log_corpus import read_corpus, redrawn, states_of
from zoosim.serving.events import unpack_floats
from zoosim.serving.settings import Settings

ARCHIVES = sorted((Path(__file__).parent / "data" / "logs").glob("*.tar.xz"))


@pytest.fixture(scope="module", params=ARCHIVES, ids=[path.name for path in ARCHIVES])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_a_kept_log_comes_to_the_same_states(kept: Path) -> None:
    states = dict(states_of(kept, read_corpus(kept)))
    expected = json.loads((kept / "states.json").read_text())
    assert states.keys() == expected.keys()
    for row, arms in expected.items():
        assert states[row].keys() == arms.keys()
        for name, state in arms.items():
            own = states[row][name]
            # A later release may learn in further arrays, or count more.
            for part in ("arrays", "counts", "joined"):
                assert {key: own[part].get(key) for key in state[part]} == state[part], f"row {row}, {name}, {part}"
            assert own["open"] == state["open"]


def test_decisions_of_a_kept_log_are_drawn_alike(kept: Path) -> None:
    rows = read_corpus(kept)
    arms = set()
    count = 0
    for decision, drawn in redrawn(kept, rows, Settings(store="sqlite:x").exploration):
        assert drawn.shown == decision.shown
        assert drawn.chances == decision.chances
        assert drawn.propensities.tobytes() == unpack_floats(decision.propensities).tobytes()
        arms.add(decision.arm)
        count += 1
    assert count >= 60
    assert len(arms) >= 3

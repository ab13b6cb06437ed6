"""An action space in one file, `pairs.py`, is run, logged, judged, trained, saved, served and drawn on pages."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import polars as pl
import pytest

import zoosim
from tests.action_spaces import pairs
from tests.action_spaces.pairs import JOINT, Pair, PairModel
from tests.action_spaces.shelf import NAMES
from tests.waiting import eventually
from zoosim.action_spaces import registry
from zoosim.api.runs import write_log
from zoosim.core.errors import ConfigError, DataError
from zoosim.serving.bodies import DecideBody
from zoosim.serving.endpoints.base import endpoint_classes
from zoosim.serving.events import Kind, Row, unpack
from zoosim.serving.folder import keep_model_file
from zoosim.serving.served_log import read_served_log

SHELF = f"{Path(__file__).parent / 'shelf.py'}:Shelf"
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="module")
def known() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry.REGISTRY, "_registered", {})
        pairs.register()
        yield


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "shelf.parquet"
    write_log(path, n=3_000, policy="random", world=SHELF)
    return path


@pytest.fixture(scope="module")
def model(log: Path) -> Path:
    training = zoosim.train(log, ["linucb"], log.parent / "pairs.zoosim", report=log.parent / "training.html")
    assert isinstance(training.model, PairModel)
    return log.parent / "pairs.zoosim"


def test_policies_compete_in_a_world_of_it(tmp_path: Path) -> None:
    result = zoosim.run(SHELF, policies=["random", "linucb"], seeds=2, steps=300, jobs=1, out=tmp_path / "run")
    earned = {row["policy"]: row["reward"] for row in result.to_polars().to_dicts()}
    assert earned["linucb"] > earned["random"]
    assert "linucb" in (tmp_path / "run" / "report.html").read_text()


def test_a_log_has_its_columns_and_names_it(log: Path) -> None:
    rows = pl.read_parquet(log)
    assert (rows["first"] + JOINT + rows["second"] == rows["product_id"]).all()
    assert (rows["first"] != rows["second"]).all()
    assert set(rows["first"]) | set(rows["second"]) == set(NAMES)
    evaluation = zoosim.evaluate(log, ["random"])
    assert evaluation.results[0].value == pytest.approx(rows["reward"].mean(), abs=0.02)


def test_a_log_cannot_be_read_where_it_is_not_known(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.REGISTRY, "_registered", {})
    with pytest.raises(DataError, match=r"shelf\.parquet: action_space: unknown 'pairs'.*import the package"):
        zoosim.evaluate(log, ["random"])


def test_what_it_has_no_part_for_is_refused(log: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a log of pairs, to which no world can be fitted"):
        zoosim.fit_world(log, tmp_path)
    with pytest.raises(ConfigError, match="is a log of pairs, expected one of products"):
        zoosim.recommend(log, out=tmp_path)


def test_a_model_is_trained_judged_saved_and_loaded(log: Path, model: Path) -> None:
    loaded = zoosim.load(model)
    assert isinstance(loaded, PairModel)
    chosen = loaded.decide({"visitor 1": 1.0}, ["wine", "bread", "cheese"])
    assert isinstance(chosen, Pair)
    assert {chosen.first, chosen.second} < {"wine", "bread", "cheese"}
    results = {row.policy: row.value for row in zoosim.evaluate(log, ["random", model]).results}
    assert results["pairs"] > results["random"]
    page = (log.parent / "training.html").read_text()
    assert "A pair has the features of both of its products, of which there are 4." in page


def test_a_service_decides_learns_and_logs(model: Path, tmp_path: Path) -> None:
    """As users have it: the action space comes with a package that is installed, beside zoosim's own."""
    package = tmp_path / "site" / "pairs-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pairs\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[zoosim.action_spaces]\npairs = tests.action_spaces.pairs:SPACE\n")
    with _served(model, tmp_path / "service", package.parent) as client:
        for number in range(12):
            body = {"visitor": {"visitor 1": 1.0}, "products": list(NAMES[:3]), "decision_id": f"{number}"}
            answer = client.post("/v1/pairs", json=body)
            assert answer.status_code == 200, answer.text
            shown = answer.json()
            assert client.post("/v1/pairs", json=body).json() == shown
            assert client.get(f"/v1/decisions/{number}").json().items() >= shown.items()
            assert {shown["first"], shown["second"]} < set(NAMES[:3])
            assert client.post(f"/v1/decisions/{number}/feedback", json={"rewards": {"reward": 1.0}}).status_code == 200
        refused = client.post("/v1/pairs", json={**body, "decision_id": "other", "products": ["bread"] * 2})
        assert refused.json()["error"].startswith("products: got fewer than two")
        elsewhere = client.post("/v1/decisions", json={"candidates": ["bread"]})
        assert elsewhere.json()["error"] == (
            "decisions: this model decides on pairs of products; send its requests to /v1/pairs"
        )
        api = client.get("/openapi.json").json()["paths"]
        assert "/v1/pairs" in api
        shows = api["/v1/decisions/{id}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]["anyOf"]
        assert {"$ref": "#/components/schemas/PairAnswer"} in shows
        eventually(lambda: client.get("/v1/model").json()["learned"].get("learned", 0) >= 12)
    served = read_served_log(tmp_path / "service")
    assert served.log.action_space == "pairs"
    assert [served.log.rewards.mean(), len(served.log)] == [1.0, 12]
    assert zoosim.evaluate(tmp_path / "service", ["random"]).results


class _Unserved(pairs.Pairs):
    endpoint: Any = None
    learning: Any = None


def test_a_service_refuses_a_model_without_an_endpoint(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.REGISTRY, "_registered", {"pairs": _Unserved()})
    with pytest.raises(ConfigError, match=r"pairs\.zoosim: is a model of pairs, for which services have no endpoint"):
        keep_model_file(tmp_path, model)
    row = Row(7, 0, Kind.CHOICE, None, msgspec.msgpack.encode(("pairs", [])))
    with pytest.raises(DataError, match=r"row 7 cannot be read \(action_space: no service decides on pairs"):
        unpack(row)


def test_a_model_cannot_be_loaded_where_its_action_space_is_not_known(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry.REGISTRY, "_registered", {})
    with pytest.raises(DataError, match=r"pairs\.zoosim: action_space: unknown 'pairs'.*import or install the package"):
        zoosim.load(model)


def test_two_action_spaces_cannot_take_the_same_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs.PairEndpoint, "body", DecideBody)
    with pytest.raises(ConfigError, match="ProductEndpoint and PairEndpoint have one body, expected each its own"):
        endpoint_classes()


@contextmanager
def _served(model: Path, folder: Path, site: Path) -> Iterator[httpx2.Client]:
    """Run `zoosim serve` with another folder of installed packages; yield a client of it."""
    words = ["serve", str(model), "--store", f"sqlite:{folder}", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": f"{site}:{REPOSITORY}", "ZOOSIM_SERVE_WAIT": "0.2"}
    with subprocess.Popen(
        [sys.executable, "-m", "zoosim", *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                match = re.search(rb"serving on (http://127\.0\.0\.1:\d+)", line)
                if match:
                    break
            with httpx2.Client(base_url=match[1].decode() if match else "", timeout=30.0) as client:
                yield client
        finally:
            process.terminate()

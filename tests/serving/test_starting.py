"""How a service begins, and what a start that is refused leaves behind: nothing."""

import asyncio
import fcntl
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.serving.shop import make_model, running
from zoosim.api.served import export_log
from zoosim.api.service import run_service
from zoosim.core.errors import ConfigError, DataError, ZoosimError
from zoosim.policies.model import Model
from zoosim.serving.folder import LOCK, locked_folder
from zoosim.serving.store.address import LOG


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


@pytest.mark.parametrize(
    ("model_file", "settings", "message"),
    [
        ("log.parquet", {}, "log.parquet: is a log, not a model; train one on it first (zoosim train "),
        ("products.csv", {}, "products.csv: is a table, not a model; make a log of it (zoosim import "),
        ("schema.yaml", {}, "schema.yaml: is a file of settings, not a model; a service takes it by --config "),
        ("", {}, "is a folder, not a model; if it is that of a service, train on its log (zoosim train "),
        ("no.zoosim", {}, "no.zoosim: no such file; zoosim train writes models"),
        ("empty.zoosim", {}, "empty.zoosim: is no model, or broken"),
        ("model.zoosim", {"port": 70_000}, "port"),
        ("model.zoosim", {"host": "0.0.0.0"}, "set a key"),
        ("model.zoosim", {"exploration": 2}, "exploration"),
        ("model.zoosim", {"lowest": 2.0}, "expected lowest below highest"),
        ("model.zoosim", {"store": "mysql:somewhere"}, "store: got"),
        ("model.zoosim", {"store": "redis://127.0.0.1:1/0"}, "127.0.0.1:1"),
        ("model.zoosim", {"config": "no.yaml"}, "no.yaml"),
    ],
)
def test_a_start_that_is_refused_leaves_nothing_behind(
    tmp_path: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    model_file: str,
    settings: Mapping[str, Any],
    message: str,
) -> None:
    (model.parent / "empty.zoosim").touch()
    monkeypatch.chdir(tmp_path)
    options = {"store": f"sqlite:{tmp_path / 'some' / 'store'}", "port": 0, **settings}
    with pytest.raises(ZoosimError) as refusal:
        run_service(model.parent / model_file, options.pop("config", None), options)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_a_start_at_a_taken_port_leaves_nothing_behind(tmp_path: Path, model: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="cannot listen on"):
            run_service(model, None, {"store": f"sqlite:{tmp_path / 'store'}", "port": port})
    assert list(tmp_path.iterdir()) == []


def test_a_refused_start_leaves_what_was_in_its_folder_before(tmp_path: Path, model: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ZoosimError):
        run_service(model.parent / "log.parquet", None, {"store": f"sqlite:{tmp_path}", "port": 0})
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_refused_start_on_a_store_from_before_changes_nothing(tmp_path: Path, model: Path) -> None:
    async def serve_once() -> None:
        async with running(tmp_path, model):
            pass

    asyncio.run(serve_once())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ZoosimError):
        run_service(model.parent / "log.parquet", None, {"store": f"sqlite:{tmp_path}", "port": 0})
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after[tmp_path / LOG] == before[tmp_path / LOG]
    assert {path for path in before if "db" not in path.name} == {path for path in after if "db" not in path.name}


def test_a_lock_counts_only_while_its_file_is_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another service is refused, and removes the file, after this one opened it and before it locks it."""
    lock = fcntl.flock
    calls: list[int] = []

    def lock_late(handle: int, how: int) -> None:
        if not calls:
            (tmp_path / LOCK).unlink()
        calls.append(handle)
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with locked_folder(tmp_path):
        assert len(calls) == 2
        with pytest.raises(ConfigError, match="another service uses it"), locked_folder(tmp_path):
            pass


def test_a_start_that_is_interrupted_leaves_nothing_behind(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the model is prepared: nobody was answered yet."""

    def interrupt(model: Model) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zoosim.serving.service.prepare_model", interrupt)

    async def serve() -> None:
        with pytest.raises(KeyboardInterrupt):
            async with running(tmp_path / "store", model):
                pass

    asyncio.run(serve())
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_log_of_a_service(tmp_path: Path) -> None:
    (tmp_path / LOG).touch()
    with pytest.raises(DataError, match=r"log\.db: is no log of a service; name another folder"):
        export_log(tmp_path, tmp_path / "out.parquet")

"""The folder of a service: models are those that their names say, and nobody else reads it."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.serving.shop import make_model, with_service
from tests.serving.test_service import visit
from zoosim.core.errors import DataError
from zoosim.policies.model import Model, load_model, model_digest
from zoosim.serving import folder
from zoosim.serving.folder import EVALUATIONS, MODELS, SNAPSHOTS, Models, keep_model_file, load_served_model
from zoosim.serving.service import Service
from zoosim.serving.store.address import LOG
from zoosim.serving.store.base import Store


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("shop"))


def test_a_sound_model_under_the_name_of_another_is_refused(
    tmp_path: Path, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make_model(tmp_path_factory.mktemp("other"), names=[f"q{number}" for number in range(8)])
    digests: list[str] = []

    async def use(service: Service) -> None:
        digests.append(service.start.model)
        await visit(service, 1)

    with_service(tmp_path, model, use)
    (digest,) = digests
    kept = tmp_path / MODELS / f"{digest}.zoosim"
    kept.write_bytes(other.read_bytes())
    swapped = keep_model_file(tmp_path, other)
    load_served_model(tmp_path, swapped)
    with pytest.raises(DataError, match=f"holds model {swapped}, expected {digest}"):
        load_served_model(tmp_path, digest)
    with pytest.raises(DataError, match=f"holds model {swapped}, expected {digest}"):
        with_service(tmp_path, None, use)
    kept.write_bytes(model.read_bytes())
    with_service(tmp_path, None, use)


def test_a_model_that_is_replaced_while_it_is_read_is_kept_under_its_own_digest(
    tmp_path: Path, model: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_model(tmp_path_factory.mktemp("other"), names=[f"q{number}" for number in range(8)]).read_bytes()
    given = tmp_path / model.name
    given.write_bytes(model.read_bytes())
    (tmp_path / MODELS).mkdir()

    def replace_and_load(path: Path, **more: Any) -> Model:
        loaded = load_model(path, **more)
        given.write_bytes(other)
        return loaded

    monkeypatch.setattr(folder, "load_model", replace_and_load)
    models = Models(tmp_path, Store)  # type: ignore[arg-type]  # which is not asked
    digest = models.keep(given)
    assert models.load(digest).catalogue.names == load_model(model).catalogue.names
    assert digest == model_digest(model)
    assert (tmp_path / MODELS / f"{digest}.zoosim").read_bytes() == model.read_bytes()


@pytest.mark.parametrize("damaged", ["a pipe", "a device", "other bytes"])
def test_a_model_is_kept_anew_where_its_file_is_damaged(damaged: str, tmp_path: Path, model: Path) -> None:
    (tmp_path / MODELS).mkdir()
    kept = tmp_path / MODELS / f"{keep_model_file(tmp_path, model)}.zoosim"
    kept.unlink()
    if damaged == "a pipe":
        os.mkfifo(kept)
    elif damaged == "a device":
        kept.symlink_to("/dev/zero")
    else:
        kept.write_bytes(b"other bytes")
    keep_model_file(tmp_path, model)
    assert kept.read_bytes() == model.read_bytes()


def test_nobody_else_reads_what_a_service_keeps(tmp_path: Path, model: Path) -> None:
    """The log and the inner folders of an earlier release, which others could read, are closed, too.

    The outer folder, where others may have something, too, keeps its mode if it was there before.
    """
    folder = tmp_path / "service"
    modes: dict[str, int] = {}

    async def use(service: Service) -> None:
        await visit(service, 1)
        paths = [
            folder,
            *(path for path in folder.iterdir() if path.is_dir()),
            *folder.glob(f"{LOG}*"),
            folder / "secret",
        ]
        modes.update({path.name: stat.S_IMODE(path.stat().st_mode) for path in paths})

    mask = os.umask(0o022)
    try:
        with_service(folder, model, use)
        made = dict(modes)
        (folder / EVALUATIONS).mkdir()
        for name, mode in ((LOG, 0o644), (MODELS, 0o755), (SNAPSHOTS, 0o755), (EVALUATIONS, 0o755)):
            (folder / name).chmod(mode)
        with_service(folder, None, use)
        folder.chmod(0o755)
        with_service(folder, None, use)
    finally:
        os.umask(mask)
    assert {f"{LOG}-wal", LOG, MODELS, SNAPSHOTS, "service"} <= made.keys()
    assert {name: oct(mode) for name, mode in made.items() if mode & 0o077} == {}
    assert made.keys() | {EVALUATIONS} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {"service": "0o755"}

"""The folder of a service's loops: a sub-folder for each, with its log, its models and a file that makes it a loop."""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from zoosim.core.config import read_yaml
from zoosim.core.errors import ConfigError, StoreError
from zoosim.core.files import atomic
from zoosim.core.parameters import shown
from zoosim.serving.folder import LOCK, MODELS, PRIVATE, keep_model_file, lock_file, model_path
from zoosim.serving.settings import Settings, read_loop_settings
from zoosim.serving.store.address import LOG

LOOP_FILE = "loop.yaml"
"""The file of a loop: its `model`, a file relative to its folder, and its settings. A folder that has one is served."""

MODEL = "model"
REMOVED = "removed"
"""The sub-folder that holds the loops that were removed."""

RESERVED = (MODELS, REMOVED, LOCK)
NAME = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)


class LoopFile(NamedTuple):
    """What the file of a loop says: the model that it begins with, empty for none, and its settings."""

    model: str
    settings: dict[str, Any]


# One file says whether there is a loop: it is written last when one is added, and leaves with the folder, by one
# rename, when it is removed. So a service that is killed at any moment leaves the loop, whole, or none.
class LoopsFolder:
    """The loops of a service on the disk.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        """Name a folder, which need not be there yet."""
        self.path = path.resolve()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder ready, and hold its lock until the block ends.

        Raises:
            ConfigError: it cannot be used, is that of a single loop, or another service uses it.
        """
        if (self.path / LOG).exists():
            remedy = "name another one, and move this one into it as the folder of a loop"
            raise ConfigError(f"loops {self.path}: is the folder of one loop; {remedy}")
        try:
            self.path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            for name in (MODELS, REMOVED):
                (self.path / name).mkdir(mode=PRIVATE, exist_ok=True)
            handle = lock_file(self.path / LOCK)
        except OSError as error:
            raise ConfigError(f"loops {self.path}: cannot be used ({error.strerror}); name another folder") from None
        try:
            yield
        finally:
            os.close(handle)

    def names(self) -> list[str]:
        """Return the names of the loops, sorted."""
        return sorted(path.parent.name for path in self.path.glob(f"*/{LOOP_FILE}") if is_name(path.parent.name))

    def unserved(self) -> dict[str, str]:
        """Return why sub-folders that look like loops are none, by name."""
        reasons = {}
        for path in sorted(self.path.iterdir()):
            has_file = (path / LOOP_FILE).exists()
            if has_file and not is_name(path.name) and path.name != REMOVED:
                reasons[path.name] = f"is no name of a loop, expected letters, digits, - and _; rename {path}"
            elif (path / LOG).exists() and not has_file:
                reasons[path.name] = f"has a log and no {LOOP_FILE}; `zoosim loops add {path.name}` serves it"
        return reasons

    def folder(self, name: str) -> Path:
        """Return the folder of a loop."""
        return self.path / name

    def read(self, name: str) -> LoopFile:
        """Return what the file of a loop says; raises `ConfigError` where it is broken."""
        values = dict(read_yaml(self.folder(name) / LOOP_FILE) or {})
        model = values.pop(MODEL, "")
        if not isinstance(model, str):
            raise ConfigError(f"{self.folder(name) / LOOP_FILE}: model: got {shown(model)}, expected a file's name")
        return LoopFile(model, values)

    def settings(self, name: str, common: Settings) -> Settings:
        """Return the settings of a loop, its own over those that all have; raises `ConfigError`."""
        path = self.folder(name) / LOOP_FILE
        return read_loop_settings(common, self.read(name).settings, self.folder(name), str(path))

    def model(self, name: str) -> Path | None:
        """Return the file of the model that a loop begins with; None for none, or once its log names one."""
        model = self.read(name).model
        path = self.folder(name) / model
        return path if model and (path.exists() or not (self.folder(name) / LOG).exists()) else None

    def forget_models(self) -> None:
        """Remove the models that were kept for loops: each loop has its own."""
        for path in (self.path / MODELS).glob("*"):
            with contextlib.suppress(OSError):
                path.unlink()

    def add(self, name: str, model: str, settings: Mapping[str, Any]) -> Callable[[], None]:
        """Make a loop, of a new folder or of one that holds a log.

        Args:
            name: Its name.
            model: The digest of its model, which was kept; empty for none, or that of its log.
            settings: Its settings, checked. Where there are none, and no model, a file of the folder says both.

        Returns:
            What undoes that, for a loop that cannot be opened; what was in the folder before stays.

        Raises:
            ConfigError: the model is not kept here.
            StoreError: the folder cannot be written.
        """
        folder = self.folder(name)
        if not folder.exists():
            undo: Callable[[], None] = partial(shutil.rmtree, folder, ignore_errors=True)
        elif not (folder / LOOP_FILE).exists():
            undo = partial((folder / LOOP_FILE).unlink, missing_ok=True)
        elif model or settings:
            remedy = f"leave out model and settings, or remove {folder / LOOP_FILE} first"
            raise ConfigError(f"loop {name}: has a {LOOP_FILE} in its folder, which says both; {remedy}")
        else:
            return lambda: None
        try:
            self._write(folder, model, settings)
        except BaseException as error:
            undo()
            if isinstance(error, OSError):
                line = f"loop {name}: cannot be kept ({error.strerror}); make room, and add it again"
                raise StoreError(line) from None
            raise
        return undo

    def _write(self, folder: Path, model: str, settings: Mapping[str, Any]) -> None:
        folder.mkdir(mode=PRIVATE, exist_ok=True)
        values = dict(settings)
        if model:
            self._copy_model(model, folder)
            values = {MODEL: self.model_name(model), **values}
        with atomic(folder / LOOP_FILE) as temporary:
            temporary.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
        sync_folder(self.path)

    @staticmethod
    def model_name(digest: str) -> str:
        """Return what the file of a loop calls a model that was kept; empty for none."""
        return model_path(Path(), digest).as_posix() if digest else ""

    def _copy_model(self, digest: str, folder: Path) -> None:
        kept = model_path(self.path, digest)
        if not digest.isalnum() or not kept.exists():
            raise ConfigError(f"model: got {shown(digest)}, which is not kept here; send its file to /v1/models first")
        (folder / MODELS).mkdir(mode=PRIVATE, exist_ok=True)
        keep_model_file(folder, kept)

    def remove(self, name: str, now: datetime) -> Path:
        """Move a loop, which nobody uses, to those that were removed; return its folder there.

        Raises:
            StoreError: it cannot be moved.
        """
        target = self.path / REMOVED / f"{name}-{now:%Y%m%dT%H%M%S}"
        number = 1
        while target.exists():
            number += 1
            target = target.with_name(f"{name}-{now:%Y%m%dT%H%M%S}-{number}")
        try:
            self.folder(name).rename(target)
            sync_folder(self.path)
            sync_folder(target.parent)
        except OSError as error:
            raise StoreError(f"loop {name}: cannot be moved to {target} ({error.strerror})") from None
        return target


def is_name(name: str) -> bool:
    """Return whether a loop may have a name."""
    return NAME.fullmatch(name) is not None and name not in RESERVED


def check_name(name: str) -> None:
    """Refuse what is no name of a loop: `ConfigError`."""
    if not is_name(name):
        taken = f"; {', '.join(RESERVED)} are taken"
        raise ConfigError(f"loop: got the name {shown(name)}, expected 1 to 40 letters, digits, - and _{taken}")


def sync_folder(folder: Path) -> None:
    """Write the list of a folder's names to the disk, so that a rename in it outlasts a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

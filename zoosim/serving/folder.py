"""The folder of a service: its lock, its secret, its models, and what its log and snapshots say was learned."""

import fcntl
import logging
import os
import secrets
from pathlib import Path
from typing import NamedTuple

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.files import atomic
from zoosim.core.packed import packed_digest
from zoosim.policies.model import PACKING, Model, load_model
from zoosim.serving.events import Kind
from zoosim.serving.join import MICROSECONDS
from zoosim.serving.learner import MODELS, ROWS_AT_ONCE, SNAPSHOTS, load_served_model, model_path
from zoosim.serving.replica import Replica
from zoosim.serving.snapshots import newest_replica
from zoosim.serving.store.base import Store

SECRET, LOCK = "secret", "lock"
DIGEST_CHARACTERS = 32
"""Of the SHA-256 of a model's file, by which the log names it."""

logger = logging.getLogger("zoosim.serving")


def lock_folder(folder: Path) -> int:
    """Make a folder ready, and hold its lock; raises `ConfigError`."""
    try:
        for part in (folder, folder / MODELS, folder / SNAPSHOTS):
            part.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(f"store {folder}: cannot be used ({error.strerror}); name another folder") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise ConfigError(f"store {folder}: another service uses it; stop that one, or name another folder") from None
    return handle


def secret_of(folder: Path) -> bytes:
    """Return the secret that draws follow from, made at the first start."""
    path = folder / SECRET
    if not path.exists():
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
    secret = path.read_bytes()
    if len(secret) != 32:
        raise DataError(f"{path}: got {len(secret)} bytes, expected 32; restore a backup, or name another folder")
    return secret


def keep_model_file(folder: Path, model_file: Path) -> str:
    """Copy a model into the service's folder, and return its digest; raises `DataError` for what is no model."""
    load_model(model_file)
    digest = packed_digest(model_file, PACKING)[:DIGEST_CHARACTERS]
    path = model_path(folder, digest)
    content = model_file.read_bytes()
    if not path.exists() or path.read_bytes() != content:
        with atomic(path) as temporary:
            temporary.write_bytes(content)
    return digest


class Models:
    """The models of a service, of which the next one can be prepared while requests go on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prepared: dict[str, Model] = {}

    def prepare(self, digest: str) -> None:
        """Load a model that is needed soon."""
        model = load_served_model(self._folder, digest)
        model.policy.prepare()
        self._prepared = {digest: model}

    def load(self, digest: str) -> Model:
        """Return a model as its file holds it."""
        prepared = self._prepared.pop(digest, None)
        return load_served_model(self._folder, digest) if prepared is None else prepared


class Replayed(NamedTuple):
    """What a service decides by when it starts: the `replica` has its model and products as the whole log says.

    `state` is the position up to which its policy has learned, and `dues` say when the waits of decisions end that may
    be open.
    """

    replica: Replica
    state: int
    dues: list[int]


def replayed(folder: Path, reader: Store, models: Models) -> Replayed:
    """Return what a service decides by: its newest sound snapshot, and the models and products of the log behind it."""

    def complain(line: str) -> None:
        logger.warning(line)

    replica = newest_replica(folder / SNAPSHOTS, models.load, reader.row, complain)
    dues = [] if replica.start is None else replica.join.dues()
    replica.forget_decisions()
    state = position = replica.position
    while rows := reader.read(position, ROWS_AT_ONCE):
        for row in rows:
            if row.kind in (Kind.START, Kind.PRODUCT):
                model = replica.start and replica.start.origin
                replica.apply(row)
                if replica.start is not None and replica.start.origin != model:
                    state = 0
            elif row.kind in (Kind.DECISION, Kind.SEARCH):
                dues.append(row.time + round(replica.rules.wait * MICROSECONDS))
        position = rows[-1].seq
    return Replayed(replica, state, dues)

"""The folder of a service: its lock, its secret, its models, and what its log and snapshots say was learned."""

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from zoosim.action_spaces.registry import find_action_space
from zoosim.core.blame import one_line
from zoosim.core.digests import content_digest, file_digest
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.files import atomic, read_content
from zoosim.policies.model import SUFFIX, Model, content_name, load_model, model_content, model_digest, save_model
from zoosim.serving.candidate_sources import index_products
from zoosim.serving.replica import Replica
from zoosim.serving.snapshots import newest_replica
from zoosim.serving.store.address import LOG
from zoosim.serving.store.base import Store

SECRET, LOCK = "secret", "lock"
MODELS, SNAPSHOTS, EVALUATIONS = "models", "snapshots", "evaluations"
"""Names of the subfolders of a service's folder."""

PARTS = (SECRET, LOCK, LOG, f"{LOG}-wal", f"{LOG}-shm")
"""The files that a service makes in its folder, a log in SQLite with what belongs to it."""

PRIVATE = 0o700
"""The mode of the folders that a service makes: nobody else reads who visited a shop, and what they did."""

SECRET_BYTES = 32

logger = logging.getLogger("zoosim.serving")


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Make a folder ready, and hold its lock until the block ends.

    A block that ends by an error, as a start does that is refused or interrupted, leaves no new store behind: what was
    made for it is removed again.

    Raises:
        ConfigError: the folder cannot be used, or another service uses it.
    """
    try:
        # Looked up before anything is made, since this is what a start that is refused removes again.
        new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
        new_parts = [folder / part for part in (*PARTS, MODELS, SNAPSHOTS) if not (folder / part).exists()]
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        for part in (MODELS, SNAPSHOTS):
            (folder / part).mkdir(mode=PRIVATE, exist_ok=True)
        for part in (MODELS, SNAPSHOTS, EVALUATIONS):  # those of an earlier release were open to others
            with contextlib.suppress(PermissionError, FileNotFoundError):  # another account's, or not there yet
                (folder / part).chmod(PRIVATE)
        handle = lock_file(folder / LOCK)
    except OSError as error:
        raise ConfigError(f"store {folder}: cannot be used ({error.strerror}); name another folder") from None
    try:
        yield
    except BaseException:  # Ctrl-C while it starts, too
        if folder / LOG in new_parts:  # else it is a store from before, of which nothing is removed
            _remove(new_parts, new_folders)
        raise
    finally:
        os.close(handle)


def lock_file(path: Path) -> int:
    """Return the handle of a locked file; raises `ConfigError` where another service has locked it."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # The system gives the lock back however the process ends, so no file of a killed service has to be judged
            # stale.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            in_use = "another service uses it; stop that one, or name another folder"
            raise ConfigError(f"store {path.parent}: {in_use}") from None
        # A service whose start was refused may have removed the file between the two calls: its lock is nobody's then.
        if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
            return handle
        os.close(handle)


def _remove(files: Iterable[Path], folders: Iterable[Path]) -> None:
    """Remove what a start made that was refused; `folders` from the innermost, those alone that are empty by then."""
    for path in files:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def secret_of(folder: Path, store: Store, random_bytes: Callable[[int], bytes]) -> bytes:
    """Return the secret that draws follow from: that of the first service of a log, made at its first start.

    Raises:
        ConfigError: the folder is that of another log.
        DataError: the secret is broken.
    """
    path = folder / SECRET
    is_new = not os.path.lexists(path)
    secret = random_bytes(SECRET_BYTES) if is_new else _read_secret(path)
    # Services that start at once on a new log make a secret each. All draw by the one that the server got first, so
    # that an id draws alike wherever it is sent.
    common = store.agree(SECRET, secret)
    if is_new:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(common)
            file.flush()
            os.fsync(file.fileno())
    elif common != secret:
        raise ConfigError(f"store {folder}: is the folder of another log; name another folder")
    return common


def _read_secret(path: Path) -> bytes:
    remedy = "restore a backup, or name another folder"
    try:
        secret = read_content(path, SECRET_BYTES)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None
    # As where the power failed before the file was synced.
    if len(secret) != SECRET_BYTES:
        raise DataError(f"{path}: got {len(secret)} bytes, expected {SECRET_BYTES}; {remedy}")
    return secret


def model_path(folder: Path, digest: str) -> Path:
    """Return where a service keeps the model with a digest."""
    return folder / MODELS / f"{digest}{SUFFIX}"


def load_served_model(folder: Path, digest: str) -> Model:
    """Return a model of a service; raises `DataError` where it is broken or gone, or the file holds another one."""
    if not digest.isalnum():
        raise DataError(f"log of the service: got {digest!r}, expected the digest of a model")
    path = model_path(folder, digest)
    if not path.exists():
        raise DataError(
            f"{path}: is gone, but the log needs it; copy the model back, or restore a backup of the folder"
        )
    model = load_model(path)
    own_digest = model_digest(path)
    if own_digest != digest:
        raise DataError(
            f"{path}: holds model {own_digest}, expected {digest}, by which the log names it; copy that model back, or "
            "restore a backup of the folder"
        )
    return model


def keep_model_file(folder: Path, model_file: Path) -> str:
    """Copy a model into the service's folder, and return its digest; raises as `keep_content`."""
    return keep_content(folder, model_content(model_file), model_file)[0]


def keep_content(folder: Path, content: bytes, source: Path = Path("model")) -> tuple[str, Model | None]:
    """Keep a model, the content of its file, in the service's folder.

    Returns:
        Its digest, and the model; None where the folder had it.

    Raises:
        DataError: the content is no model.
        ConfigError: no service decides in its action space.
    """
    digest = content_name(content)
    if _is_kept(folder, digest, content):
        return digest, None
    model = load_model(source, content=content)
    space = find_action_space(model.action_space)
    if space.endpoint is None or space.learning is None:
        raise ConfigError(
            f"{source}: is a model of {space.name}, for which services have no endpoint; decide by it in Python"
        )
    _write_model(folder, digest, content)
    return digest, model


def keep_model(folder: Path, model: Model) -> str:
    """Keep a model in the service's folder; return its digest."""
    with tempfile.TemporaryDirectory() as temporary:
        content = save_model(model, Path(temporary) / f"model{SUFFIX}").read_bytes()
    digest = content_name(content)
    _write_model(folder, digest, content)
    return digest


def _write_model(folder: Path, digest: str, content: bytes) -> None:
    with atomic(model_path(folder, digest)) as temporary:
        temporary.write_bytes(content)


def _is_kept(folder: Path, digest: str, content: bytes) -> bool:
    """Return whether a folder has this very model, whole: a file in it may be damaged, and is to be replaced then."""
    try:
        return file_digest(model_path(folder, digest)) == content_digest(content)
    except OSError:  # there is none yet, or one that cannot be read
        return False


def prepare_model(model: Model) -> None:
    """Do what deciding by a model takes at first; where it cannot decide, a line of the service's log says so."""
    try:
        model.prepare()
    except Exception as error:  # a policy of the user's own may raise anything
        logger.warning("the model cannot decide among its own products: %s", one_line(error))


class Models:
    """The models of a service, of which the next one can be prepared while requests go on."""

    def __init__(self, folder: Path, store: Store) -> None:
        """Load them from a folder; those that it lacks are fetched from where the store shares them."""
        self._folder = folder
        self._store = store
        self._prepared: dict[str, list[Model]] = {}

    def keep(self, model_file: Path) -> str:
        """Copy a model into the folder, and return its digest; raises as `keep_content`.

        It is loaded where the folder did not have it, and is then what `load` returns.
        """
        digest, model = keep_content(self._folder, model_content(model_file), model_file)
        if model is not None:
            self._prepared[digest] = [model]
        return digest

    def look(self, digest: str) -> Model:
        """Return a model as its file holds it, to be looked at alone: `load` returns it, too."""
        if not self._prepared.get(digest):
            self._prepared[digest] = [self._loaded(digest)]
        return self._prepared[digest][-1]

    def prepare(self, digests: Iterable[str]) -> None:
        """Load models that are needed soon, each as often as it is named, since what one arm learns is its own."""
        prepared: dict[str, list[Model]] = {}
        for digest in digests:
            model = self._loaded(digest)
            prepare_model(model)
            index_products(model)
            prepared.setdefault(digest, []).append(model)
        self._prepared = prepared

    def are_prepared(self, digests: Iterable[str]) -> bool:
        """Return whether models can be had at once, each as often as it is named."""
        return Counter(digests) <= Counter({digest: len(models) for digest, models in self._prepared.items()})

    def load(self, digest: str) -> Model:
        """Return a model as its file holds it."""
        prepared = self._prepared.get(digest)
        return prepared.pop() if prepared else self._loaded(digest)

    def _loaded(self, digest: str) -> Model:
        self._store.fetch(self._folder, f"{MODELS}/{digest}{SUFFIX}")
        return load_served_model(self._folder, digest)


def newest_snapshot(folder: Path, reader: Store, models: Models) -> Replica:
    """Return what a service decides by, as its newest sound snapshot says; nothing is learned from it."""

    def complain(line: str) -> None:
        logger.warning(line)

    replica = newest_replica(folder / SNAPSHOTS, models.load, reader.rows, complain)
    for arm in replica.arms.values():
        arm.forget_decisions()
    return replica

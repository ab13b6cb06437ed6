"""The learner: a process that reads the log, learns, tells the ranker what changed, and writes snapshots."""

import gc
import logging
import os
import signal
import sys
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from zoosim.core.errors import DataError, StoreError
from zoosim.policies.model import Model, load_model
from zoosim.serving.log_lines import write_json_lines
from zoosim.serving.publishing import Publisher, encode
from zoosim.serving.replica import Replica
from zoosim.serving.snapshots import newest_replica, write_snapshot
from zoosim.serving.store.sqlite import SqliteStore

LOG, MODELS, SNAPSHOTS = "log.db", "models", "snapshots"
"""What a service's folder holds."""

ROWS_AT_ONCE = 1_000
PAUSE = 0.01
"""Seconds between two looks at a log that has nothing new."""

ROWS_PER_SNAPSHOT = 10_000

STOP = b"stop"
"""What the ranker sends to a learner that shall write a snapshot and end."""

logger = logging.getLogger("zoosim.serving")


class LearnerJob(NamedTuple):
    """What a learner needs: the service's folder, seconds between snapshots, and the process that it works for."""

    folder: Path
    snapshot: float
    parent: int


def model_path(folder: Path, digest: str) -> Path:
    """Return where a service keeps the model with a digest."""
    return folder / MODELS / f"{digest}.zoosim"


def load_served_model(folder: Path, digest: str) -> Model:
    """Return a model of a service; raises `DataError` where it is broken or gone."""
    if not digest.isalnum():
        raise DataError(f"log of the service: got {digest!r}, expected the digest of a model")
    return load_model(model_path(folder, digest))


def run_learner(job: LearnerJob, ranker: Connection) -> None:
    """Learn from the log until the ranker says stop, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    write_json_lines()
    store = SqliteStore(job.folder / LOG, read_only=True)
    replica = newest_replica(
        job.folder / SNAPSHOTS, lambda digest: load_served_model(job.folder, digest), store.row, _complain
    )
    gc.freeze()
    learner = _Learner(job, store, replica, ranker)
    try:
        learner.run()
    except (BrokenPipeError, EOFError, ConnectionResetError):
        pass
    except DataError as error:
        _complain(str(error))
        sys.exit(3)
    finally:
        store.close()


class _Learner:
    """Reads the log row by row; at each tick it learns what is over, and publishes."""

    def __init__(self, job: LearnerJob, store: SqliteStore, replica: Replica, ranker: Connection) -> None:
        self._job = job
        self._store = store
        self._replica = replica
        self._ranker = ranker
        self._publisher = Publisher()
        self._saved_at = time.monotonic()
        self._saved_position = replica.position
        self._published = -1

    def run(self) -> None:
        """Read, learn and publish until told to stop."""
        while True:
            rows_read = self._catch_up()
            if self._published != self._replica.position and self._replica.start is not None:
                self._publish()
            if self._snapshot_is_due():
                self._save()
            if self._is_told_to_stop():
                break
            if not rows_read:
                time.sleep(PAUSE)
        if self._replica.position > self._saved_position:
            self._save()

    def _catch_up(self) -> int:
        """Read what is new in the log; return how many rows it was."""
        try:
            rows = self._store.read(self._replica.position, ROWS_AT_ONCE)
        except StoreError as error:
            _complain(str(error))
            return 0
        for row in rows:
            expected = self._replica.position + 1
            if row.seq != expected:
                raise DataError(f"log of the service: row {expected:,} is missing; restore a backup")
            self._replica.apply(row)
            if self._replica.position - self._saved_position >= ROWS_PER_SNAPSHOT:
                self._save()
        return len(rows)

    def _publish(self) -> None:
        replica = self._replica
        start = replica.start
        assert start is not None
        counts = {**replica.join.counts, **replica.counts, "open": len(replica.join)}
        message = self._publisher.message(replica.model.policy, replica.position, start.model, start.rules, counts)
        self._ranker.send_bytes(encode(message))
        self._published = replica.position

    def _snapshot_is_due(self) -> bool:
        is_old = time.monotonic() - self._saved_at > self._job.snapshot
        return is_old and self._replica.position > self._saved_position

    def _save(self) -> None:
        try:
            write_snapshot(self._job.folder / SNAPSHOTS, self._replica)
        except OSError as error:
            _complain(f"snapshot: cannot be written ({error.strerror}); the log holds all")
        self._saved_at = time.monotonic()
        self._saved_position = self._replica.position

    def _is_told_to_stop(self) -> bool:
        if os.getppid() != self._job.parent:
            return True
        return self._ranker.poll() and self._ranker.recv_bytes() == STOP


def _complain(line: str) -> None:
    logger.warning(line)

"""A log in a stream of a Redis or Valkey server: any number of services append to it, and read it.

All keys of a log have the hash tag `{LOOP}`, so that a cluster keeps them together:

    {LOOP}:log          the stream; row 7 is the entry 7-0
    {LOOP}:keys         the entry of each row's key
    {LOOP}:lease        the service that leads: which one, for how long
    {LOOP}:time         its time, as it said when it last renewed its lease
    {LOOP}:files        models, snapshots and the secret, by name
    {LOOP}:answer:NAME  what a service was answered to its last append
    {LOOP}:copies       how often rows were replaced
    {LOOP}:copy:NAME    the stream with other bodies in some rows, while it is made

A script appends, and gives rows their positions. So rows of several services stand in one order, and each key once.
"""

import contextlib
import hashlib
import logging
import os
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from zoosim.core.digests import short_hash
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import ConfigError, DataError, StoreError
from zoosim.core.files import read_content
from zoosim.core.packed import MOST_BYTES
from zoosim.serving.clock import machine_steady
from zoosim.serving.events import Kind, NewRow, Row
from zoosim.serving.store.address import log_name
from zoosim.serving.store.base import LostRows
from zoosim.serving.store.scripts import APPEND, CHANGE, COPY, LEAD, REMOVE, SWAP

SECONDS_TO_ANSWER = 5.0
"""Seconds that the server may take to answer before that counts as a failure."""

REMOVED_TOGETHER = 500
"""Old rows that one script removes; they are read for their keys, bodies and all."""

COPIED_TOGETHER = 500
"""Rows that one script copies, where some are replaced."""

SECONDS_BETWEEN_LOOKS = 0.05
"""Between two looks at whether the server has rewritten its file."""

LEASE_SECONDS = 5.0
"""Seconds for which a service leads after it has renewed its lease."""

ANSWER_SECONDS = 60
"""Seconds for which the server keeps its answer to an append."""

TRIES = 2
"""Number of tries of an append whose answer gets lost."""

FENCED, LOST = b"fenced", b"lost"

FILE_NAME = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*", re.ASCII)

logger = logging.getLogger("zoosim.serving")


class _Common(NamedTuple):
    """The time by the service that leads, and when the server was asked by the steady clock, both in microseconds."""

    time: int
    asked_at: int


class RedisStore:
    """A log on a server. What `append` returned is as safe as the server keeps it, by its `appendfsync`."""

    def __init__(self, server: str, loop: str, read_only: bool = False) -> None:
        """Open a log, making it where it is not there.

        Args:
            server: The URL of the server.
            loop: What the log is called there.
            read_only: Read it alone.

        Raises:
            ConfigError: the server may drop what it holds.
            DataError: what lies on the server is no log.
            StoreError: the server does not answer, or refuses.
        """
        self._client = redis.Redis.from_url(
            server,
            protocol=2,
            socket_timeout=SECONDS_TO_ANSWER,
            socket_connect_timeout=SECONDS_TO_ANSWER,
            retry=Retry(NoBackoff(), 0),
        )
        self._name = log_name(server, loop)
        self._service = secrets.token_hex(8)
        self._log, self._keys, self._lease, self._time, self._files, self._copies = (
            f"{{{loop}}}:{part}" for part in ("log", "keys", "lease", "time", "files", "copies")
        )
        self._answer, self._copy = (f"{{{loop}}}:{part}:{self._service}" for part in ("answer", "copy"))
        self._lead, self._append, self._remove, self._change, self._copy_rows, self._swap = (
            self._client.register_script(script) for script in (LEAD, APPEND, REMOVE, CHANGE, COPY, SWAP)
        )
        self._appends = 0
        self._position = 0
        self._seal = b""
        self._leads_until = 0
        self._now: Callable[[], int] | None = None
        self._common: _Common | None = None
        self._closing = threading.Event()
        self.last()
        if not read_only:
            self._check_server()
            self._try_to_lead()
            threading.Thread(target=self._renew, name="lease", daemon=True).start()

    @property
    def leads(self) -> bool:
        """True if this service has the lease."""
        return machine_steady() < self._leads_until

    def keep_time(self, now: Callable[[], int]) -> None:
        """Say the time by this clock whenever the lease is renewed, and now."""
        self._now = now
        self._run_quietly(self._try_to_lead)

    def common_time(self) -> int | None:
        """Return the time by the service that leads, or led until just now, gone on since the server said it."""
        common = self._common
        if common is None or (self.leads and self._now is not None):
            return None
        return common.time + machine_steady() - common.asked_at

    def append_now(self, rows: Sequence[NewRow]) -> None:
        """Append nothing: an answer of the server is waited for."""

    def append(self, rows: Sequence[NewRow]) -> list[int | None]:
        """Append rows by one script; see `Store`."""
        if not rows:
            return []
        self._appends += 1
        values: list[Any] = [self._appends, self._position, self._seal, ANSWER_SECONDS]
        for row in rows:
            values += [row.time, int(row.kind), row.key or b"", row.body, _digest(row)]
        outcome = self._run_again(self._append, [self._log, self._keys, self._answer], values)
        # Who decides by rows that are gone must not lead, as it would remove rows by what it knows.
        if outcome == LOST:
            self.resign()
            raise LostRows(self._position)
        positions = [int(position) or None for position in outcome[0].split()]
        new_positions = [position for position in positions if position is not None]
        if new_positions:
            self._position = new_positions[-1]
            self._seal = outcome[1]
        return positions

    def sync(self) -> None:
        """Do nothing: the server's `appendfsync` says when it syncs."""

    def find(self, key: bytes) -> Row | None:
        """Return the row with a key."""
        entry = self._ask("HGET", self._keys, key)
        return None if entry is None else self._first(self._ask("XRANGE", self._log, entry, entry))

    def row(self, seq: int) -> Row | None:
        """Return the row at a position."""
        return self._first(self._ask("XRANGE", self._log, _entry(seq), _entry(seq)))

    def rows(self, seqs: Sequence[int]) -> dict[int, Row]:
        """Return rows by their positions, asked for together."""
        with self._client.pipeline(transaction=False) as pipeline:
            for seq in seqs:
                pipeline.xrange(self._log, _entry(seq), _entry(seq))
            answers = self._run(pipeline.execute)
        rows = map(self._first, answers)
        return {row.seq: row for row in rows if row is not None}

    def last(self) -> Row | None:
        """Return the newest row."""
        return self._first(self._ask("XREVRANGE", self._log, "+", "-", "COUNT", 1))

    def read(self, after: int, limit: int) -> list[Row]:
        """Return rows behind a position."""
        entries = self._ask("XRANGE", self._log, _entry(after + 1), "+", "COUNT", limit)
        return [self._checked(entry) for entry in entries]

    def remove_before(self, time: int, limit: int) -> int:
        """Remove old rows, but never the newest."""
        count = 0
        while count < limit:
            some = min(limit - count, REMOVED_TOGETHER)
            # One more than is removed: the script cuts in front of a row that stays, and the newest of all always does.
            entries = self._ask("XRANGE", self._log, "-", "+", "COUNT", some + 1)
            old = list(takewhile(lambda entry: int(entry[1][b"time"]) < time, entries[:-1]))
            if old:
                first_kept = entries[len(old)][0]
                keys = [fields[b"key"] for _, fields in old if fields[b"key"]]
                self._as_leader(self._remove, [self._log, self._keys, self._lease], [first_kept, *keys])
            count += len(old)
            if len(old) < some:
                break
        return count

    def replace(self, rows: Sequence[Row]) -> None:
        """Replace the stream, whose entries cannot be changed, by a copy with other keys and bodies."""
        # New keys, then rows, then old keys: wherever it is cut off, a key finds each row, and it can be repeated.
        former = self._change_keys(rows)
        while rows and not self._replace_by_copy(rows):  # else another visitor was forgotten meanwhile
            continue
        if former:
            self._ask("HDEL", self._keys, *former)
        self._rewrite_file()

    def _change_keys(self, rows: Sequence[Row]) -> list[bytes]:
        """Index rows by the keys that they get, and return the different keys that they had."""
        former = []
        for row in rows:
            before = self.row(row.seq)
            if before is not None and before.key is not None and before.key != row.key:
                former.append(before.key)
                self._ask("HSET", self._keys, row.key, _entry(row.seq))
        return former

    def agree(self, name: str, content: bytes) -> bytes:
        """Return the first content that a service gave to a file."""
        self._ask("HSETNX", self._files, name, content)
        return bytes(self._ask("HGET", self._files, name))

    def share(self, folder: Path, names: Sequence[str]) -> None:
        """Keep copies of files on the server; what has a name already stays."""
        shared_names = self.shared()
        for name in names:
            path = folder / name
            if name not in shared_names and path.exists():
                self._ask("HSETNX", self._files, name, read_content(path, MOST_BYTES))

    def shared(self) -> list[str]:
        """Return the names of the files on the server."""
        return [name.decode() for name in self._ask("HKEYS", self._files)]

    def unshare(self, names: Sequence[str]) -> None:
        """Drop files from the server."""
        for name in names:
            self._as_leader(self._change, [self._lease, self._files], ["HDEL", name])

    def fetch(self, folder: Path, name: str = "") -> None:
        """Write the shared files that are lacking into a folder."""
        if name and (folder / name).exists():
            return
        for file_name in [name] if name else self.shared():
            path = folder / file_name
            # Names come from the server, where others may write: none may lead out of the folder.
            if not FILE_NAME.fullmatch(file_name):
                raise DataError(f"{self._name}: got a file of the name {file_name!r}, expected a model or a snapshot")
            if path.exists():
                continue
            content = self._ask("HGET", self._files, file_name)
            if content is not None:
                # Under another name first, as the learner, or a tool, may look for the file at this moment.
                handle, temporary = tempfile.mkstemp(suffix=".part", dir=path.parent)
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                Path(temporary).replace(path)

    def resign(self) -> None:
        """Give the lease back, and take it no more."""
        # First: no thread takes the lease again then, and one that is just doing so gets one that runs out by itself.
        self._closing.set()
        if self.leads:
            self._run_quietly(self._as_leader, self._change, [self._lease, self._lease], ["DEL"])
            self._leads_until = 0

    def close(self) -> None:
        """Give the lease back, and close connections."""
        self.resign()
        self._client.close()

    def _check_server(self) -> None:
        """Refuse a server that drops keys when its memory is full, and warn of one that keeps nothing on its disk."""
        policy = self._ask("INFO", "memory").get("maxmemory_policy", "noeviction")
        # Other policies drop keys that expire, which none does that holds rows.
        if policy.startswith("allkeys"):
            raise ConfigError(f"{self._name}: maxmemory-policy is {policy}, which drops rows; set it to noeviction")
        if not self._ask("INFO", "persistence").get("aof_enabled", 1):
            logger.warning("%s: appendonly is no, so what the server acknowledged is lost when it ends", self._name)

    def _try_to_lead(self) -> None:
        """Take the lease, or renew it."""
        # Before the request: however late the answer, this service stops leading before another can get the lease.
        asked_at = machine_steady()
        values = [self._service, round(LEASE_SECONDS * 1_000), 0 if self._now is None else self._now()]
        is_leader, leader_time, age = self._run(self._lead, [self._lease, self._time], values)
        if is_leader and not self._closing.is_set():
            self._leads_until = asked_at + round(LEASE_SECONDS * MICROSECONDS)
        self._common = _Common(int(leader_time) + int(age) * 1_000, asked_at) if int(leader_time) else None

    def _renew(self) -> None:
        while not self._closing.wait(LEASE_SECONDS / 4):
            self._run_quietly(self._try_to_lead)

    def _replace_by_copy(self, rows: Sequence[Row]) -> bool:
        """Copy the stream with other keys and bodies in some rows; tell whether the copy took its place."""
        self._check_room()
        self._ask("DEL", self._copy)
        copies = self._ask("GET", self._copies) or b""
        (oldest,), newest = self.read(0, 1), self.last()
        assert newest is not None
        position = oldest.seq - 1
        while position < newest.seq:
            stop = min(position + COPIED_TOGETHER, newest.seq)
            values: list[Any] = [_entry(position + 1), _entry(stop)]
            for row in rows:
                if position < row.seq <= stop:
                    values += [_entry(row.seq), row.key or b"", row.body, _digest(NewRow(*row[1:]))]
            self._run(self._copy_rows, [self._log, self._copy], values)
            position = stop
        return bool(self._run(self._swap, [self._log, self._copy, self._copies], [copies, _entry(position)]))

    def _check_room(self) -> None:
        """Refuse to copy the stream where the server's memory does not hold it twice."""
        memory = self._ask("INFO", "memory")
        needed_bytes = memory["used_memory"] + (self._ask("MEMORY", "USAGE", self._log) or 0)
        if 0 < memory["maxmemory"] < needed_bytes:
            raise StoreError(
                f"{self._name}: maxmemory is {memory['maxmemory']:,}, expected {needed_bytes:,} bytes, which hold the "
                "log twice while rows of it are replaced; raise it for that time"
            )

    def _rewrite_file(self) -> None:
        """Make the server rewrite its file, which has kept what was replaced, and wait until it has."""
        if not self._ask("INFO", "persistence").get("aof_enabled"):
            return
        # One that began before the swap may still write what was replaced.
        self._wait_for_rewriting()
        self._ask("BGREWRITEAOF")
        status = self._wait_for_rewriting().get("aof_last_bgrewrite_status", "ok")
        if status != "ok":
            raise StoreError(
                f"{self._name}: the server cannot write its file anew, which still holds what was replaced"
            )

    def _wait_for_rewriting(self) -> dict[str, Any]:
        """Return what the server says of its files, once it is not rewriting one."""
        while True:
            persistence = self._ask("INFO", "persistence")
            if not persistence.get("aof_rewrite_in_progress") and not persistence.get("aof_rewrite_scheduled"):
                return dict(persistence)
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _as_leader(self, script: Callable[..., Any], keys: Sequence[str], values: Sequence[Any]) -> Any:
        """Run a script that compares the lease first; raises `StoreError` where another service has it."""
        outcome = self._run(script, keys, [self._service, *values])
        if outcome == FENCED:
            raise StoreError(f"{self._name}: another service leads; it does this")
        return outcome

    def _run_quietly(self, call: Callable[..., Any], *values: Any) -> None:
        with contextlib.suppress(StoreError):
            call(*values)

    def _ask(self, *command: Any) -> Any:
        return self._run(self._client.execute_command, *command)

    def _run_again(self, call: Callable[..., Any], *values: Any) -> Any:
        """Run what may be run again where its answer gets lost."""
        for _ in range(TRIES - 1):
            with contextlib.suppress(StoreError):
                return self._run(call, *values)
        return self._run(call, *values)

    def _run(self, call: Callable[..., Any], *values: Any) -> Any:
        try:
            return call(*values)
        except redis.RedisError as error:
            raise StoreError(f"{self._name}: cannot be read or written ({error})") from None

    def _first(self, entries: Sequence[Any]) -> Row | None:
        return self._checked(entries[0]) if entries else None

    def _checked(self, entry: tuple[bytes, dict[bytes, bytes]]) -> Row:
        """Return the row of an entry; raises `DataError` where it is not what was written."""
        name, fields = entry
        broken = DataError(f"{self._name}: row {name.decode()} is broken: it is not what was written; restore a backup")
        try:
            kind = Kind(int(fields[b"kind"]))
            row = Row(int(name.partition(b"-")[0]), int(fields[b"time"]), kind, fields[b"key"] or None, fields[b"body"])
            seal = f"{row.seq} {row.time} {_digest(NewRow(*row[1:]))}"
            if hashlib.sha1(seal.encode(), usedforsecurity=False).hexdigest().encode() != fields[b"seal"]:
                raise broken
        except (KeyError, TypeError, ValueError):
            raise broken from None
        return row


def _digest(row: NewRow) -> str:
    """Return a checksum of what a row says; the server seals it with the position and the time."""
    key = b"-" if row.key is None else len(row.key).to_bytes(4, "big") + row.key
    return short_hash(b"%d " % row.kind + key + row.body).hex()


def _entry(seq: int) -> str:
    """Return the entry of the stream that is the row at a position."""
    return f"{seq}-0"

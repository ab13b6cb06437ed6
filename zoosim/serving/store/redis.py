"""A log in a stream of a Redis or Valkey server: one service appends to it, any number of machines read it.

All keys of a log have the hash tag `{LOOP}`, so that a cluster keeps them together:

    {LOOP}:log    the stream; row 7 is the entry 7-0
    {LOOP}:keys   the entry of each row's key
    {LOOP}:lease  there while a service lives that appends
    {LOOP}:owner  the epoch of the service that may append: a random number of each start
    {LOOP}:files  models and snapshots, by name

Whatever a service writes, it writes by a script that compares the epoch first. So one that was cut off, and comes back
when another has taken over, changes nothing any more.
"""

import contextlib
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from zoosim.core.errors import ConfigError, DataError, StoreError
from zoosim.serving.events import Kind, NewRow, Row, row_checksum
from zoosim.serving.store.address import log_name
from zoosim.serving.store.base import StoredAfterAll, place

SECONDS_TO_ANSWER = 5.0
"""How long the server may take to answer before that counts as a failure."""

LEASE_SECONDS = 5.0
"""How long a service that was killed keeps others from the log."""

FENCED = b"fenced"
MOVED = b"moved"

TAKE_OVER = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
"""Take the lease and the right to append, where no other service has them."""

APPEND = """
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return 'fenced' end
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if (newest and newest[1] or '0-0') ~= ARGV[2] then return 'moved' end
local known = {}
for i = 3, #ARGV, 6 do
  local key = ARGV[i + 3]
  if key ~= '' and redis.call('HEXISTS', KEYS[2], key) == 1 then known[#known + 1] = key end
end
if #known > 0 then return known end
for i = 3, #ARGV, 6 do
  if ARGV[i + 3] ~= '' then redis.call('HSET', KEYS[2], ARGV[i + 3], ARGV[i]) end
  redis.call('XADD', KEYS[1], ARGV[i], 'time', ARGV[i + 1], 'kind', ARGV[i + 2], 'key', ARGV[i + 3],
             'body', ARGV[i + 4], 'checksum', ARGV[i + 5])
end
return known
"""
"""Append rows behind a position, all or none; return the keys that are in the log, when there are any."""

REMOVE = """
if redis.call('GET', KEYS[3]) ~= ARGV[1] then return 'fenced' end
for i = 3, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end
return redis.call('XTRIM', KEYS[1], 'MINID', ARGV[2])
"""
"""Remove the rows before an entry, and their keys."""

CHANGE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'fenced' end
return redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))
"""
"""Do one command with a key."""

CHANGING = ("changes.json",)
"""Shared files that change under one name; the server's are the right ones for who takes over."""

FILE_NAME = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*", re.ASCII)

logger = logging.getLogger("zoosim.serving")


class RedisStore:
    """A log on a server. What `append` returned is as safe as the server keeps it, by its `appendfsync`."""

    def __init__(self, server: str, loop: str, read_only: bool = False) -> None:
        """Open a log, making it where it is not there.

        Args:
            server: The URL of the server.
            loop: What the log is called there.
            read_only: Read it alone, while another process may append to it.

        Raises:
            ConfigError: another service appends to the log, or the server may drop what it holds.
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
        self._log, self._keys, self._lease, self._owner, self._files = (
            f"{{{loop}}}:{part}" for part in ("log", "keys", "lease", "owner", "files")
        )
        self._take_over, self._append, self._remove, self._change = (
            self._client.register_script(script) for script in (TAKE_OVER, APPEND, REMOVE, CHANGE)
        )
        self._epoch = secrets.token_hex(8)
        self._closing = threading.Event()
        if not read_only:
            self._check_server()
            self._become_owner()
            threading.Thread(target=self._renew, name="lease", daemon=True).start()
        newest = self.last()
        self._position = 0 if newest is None else newest.seq
        self._is_settled = True

    def append(self, rows: Sequence[NewRow]) -> list[int | None]:
        """Append rows by one script; see `Store`."""
        if not self._is_settled:
            self._settle()
        known: set[bytes] = set()
        while True:
            new, positions = place(rows, self._position, known)
            known_to_log = self._appended(new)
            if not known_to_log:
                return positions
            known.update(known_to_log)

    def sync(self) -> None:
        """Do nothing: the server's `appendfsync` says when it syncs."""

    def find(self, key: bytes) -> Row | None:
        """Return the row with a key."""
        entry = self._ask("HGET", self._keys, key)
        return None if entry is None else self._first(self._ask("XRANGE", self._log, entry, entry))

    def row(self, seq: int) -> Row | None:
        """Return the row at a position."""
        return self._first(self._ask("XRANGE", self._log, _entry(seq), _entry(seq)))

    def last(self) -> Row | None:
        """Return the newest row."""
        return self._first(self._ask("XREVRANGE", self._log, "+", "-", "COUNT", 1))

    def read(self, after: int, limit: int) -> list[Row]:
        """Return rows behind a position."""
        entries = self._ask("XRANGE", self._log, _entry(after + 1), "+", "COUNT", limit)
        return [self._checked(entry) for entry in entries]

    def remove_before(self, time: int, limit: int) -> int:
        """Remove old rows, but never the newest."""
        entries = self._ask("XRANGE", self._log, "-", "+", "COUNT", limit + 1)
        old = list(takewhile(lambda entry: int(entry[1][b"time"]) < time, entries[:-1]))
        if old:
            first_kept = entries[len(old)][0]
            keys = [fields[b"key"] for _, fields in old if fields[b"key"]]
            self._as_owner(self._remove, [self._log, self._keys, self._owner], [first_kept, *keys])
        return len(old)

    def share(self, folder: Path, names: Sequence[str]) -> None:
        """Keep copies of files on the server, and drop those of others; what has a name already stays."""
        shared = {name.decode() for name in self._ask("HKEYS", self._files)}
        for name in names:
            path = folder / name
            if path.exists() and (name not in shared or name in CHANGING):
                self._as_owner(self._change, [self._owner, self._files], ["HSET", name, path.read_bytes()])
        for name in shared.difference(names):
            self._as_owner(self._change, [self._owner, self._files], ["HDEL", name])

    def fetch(self, folder: Path) -> None:
        """Write the shared files that are lacking into a folder."""
        for name in (name.decode() for name in self._ask("HKEYS", self._files)):
            path = folder / name
            if not FILE_NAME.fullmatch(name):
                raise DataError(f"{self._name}: got a file of the name {name!r}, expected a model or a snapshot")
            if not path.exists() or name in CHANGING:
                temporary = path.with_name(f"{path.name}.part")
                temporary.touch(mode=0o600)
                temporary.write_bytes(self._ask("HGET", self._files, name))
                temporary.replace(path)

    def close(self) -> None:
        """Give the lease back, and close connections."""
        if not self._closing.is_set():
            self._closing.set()
            with contextlib.suppress(StoreError):
                self._as_owner(self._change, [self._owner, self._lease], ["DEL"])
            self._client.close()

    def _appended(self, rows: Sequence[Row]) -> list[bytes]:
        """Append rows, or return which of their keys are in the log."""
        if not rows:
            return []
        values: list[Any] = [_entry(self._position)]
        for row in rows:
            values += [_entry(row.seq), row.time, int(row.kind), row.key or b"", row.body, row_checksum(row)]
        self._is_settled = False
        outcome = self._as_owner(self._append, [self._log, self._keys, self._owner], values)
        if outcome == MOVED:
            raise StoreError(f"{self._name}: is not as it was left; send the request again")
        self._is_settled = True
        if not outcome:
            self._position = rows[-1].seq
        return list(outcome)

    def _settle(self) -> None:
        """Find out what became of the last rows, whose fate is unknown since an answer was lost."""
        if self._ask("GET", self._owner) != self._epoch.encode():
            raise self._fenced()
        newest = self.last()
        position = 0 if newest is None else newest.seq
        if position < self._position:
            raise DataError(
                f"{self._name}: ends at row {position:,}, expected row {self._position:,}: the server has lost rows "
                "that it had stored; start the service again, and set appendfsync always to lose none"
            )
        late = self.read(self._position, position - self._position) if position > self._position else []
        self._position = position
        self._is_settled = True
        if late:
            raise StoredAfterAll(late)

    def _check_server(self) -> None:
        """Refuse a server that drops keys when its memory is full, and warn of one that keeps nothing on its disk."""
        policy = self._ask("INFO", "memory").get("maxmemory_policy", "noeviction")
        if policy.startswith("allkeys"):
            raise ConfigError(f"{self._name}: maxmemory-policy is {policy}, which drops rows; set it to noeviction")
        if not self._ask("INFO", "persistence").get("aof_enabled", 1):
            logger.warning("%s: appendonly is no, so what the server acknowledged is lost when it ends", self._name)

    def _become_owner(self) -> None:
        """Take the lease, once that of a service that died has run out; raises `ConfigError` where one lives."""
        shortest = LEASE_SECONDS * 1_000
        values = [self._epoch, round(LEASE_SECONDS * 1_000)]
        while not self._run(self._take_over, [self._lease, self._owner], values):
            left = self._ask("PTTL", self._lease)
            if left > shortest:  # somebody renews it
                raise ConfigError(f"{self._name}: another service appends to it; stop that one, or choose another name")
            shortest = left
            time.sleep(0.1)

    def _renew(self) -> None:
        while not self._closing.wait(LEASE_SECONDS / 4):
            with contextlib.suppress(StoreError):
                values = ["SET", self._epoch, "PX", round(LEASE_SECONDS * 1_000)]
                self._as_owner(self._change, [self._owner, self._lease], values)

    def _as_owner(self, script: Callable[..., Any], keys: Sequence[str], values: Sequence[Any]) -> Any:
        """Run a script that compares the epoch first; raises `StoreError` where another service has taken over."""
        outcome = self._run(script, keys, [self._epoch, *values])
        if outcome == FENCED:
            raise self._fenced()
        return outcome

    def _fenced(self) -> StoreError:
        return StoreError(f"{self._name}: another service has taken it over; send requests to that one")

    def _ask(self, *command: Any) -> Any:
        return self._run(self._client.execute_command, *command)

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
            if row_checksum(row) != fields[b"checksum"]:
                raise broken
        except (KeyError, TypeError, ValueError):
            raise broken from None
        return row


def _entry(seq: int) -> str:
    """Return the entry of the stream that is the row at a position."""
    return f"{seq}-0"

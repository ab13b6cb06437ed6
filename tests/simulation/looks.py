"""What services say of their log beside decisions: how far it reaches, whether it can be written, and its copies."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.simulation.clients import Clients
from tests.simulation.hosts import Host, World
from zoosim.core.errors import StoreError
from zoosim.serving.events import CHOICES, Kind, Row
from zoosim.serving.folder import SNAPSHOTS
from zoosim.serving.service import Service
from zoosim.serving.snapshots import first_needed_row

SECOND = 1_000_000


class Reach(NamedTuple):
    """What a service said of how far its log reaches, and the newest row when it was asked, and when it answered."""

    before: int
    after: int
    answer: tuple[float, float] | None


class Looks:
    """Looks at what services say of their log.

    Attributes:
        reaches: What they said of how far it reaches.
        removed: As of the log: the first row that was left, and the newest one, each time that rows were removed.
        deleted: The newest row when the log was to be deleted, each time that it was.
    """

    def __init__(self, world: World, clients: Clients) -> None:
        """Begin without looks."""
        self.reaches: list[Reach] = []
        self.deleted: list[int] = []
        self.removed = world.log.removed
        self._log = world.log
        self._violations = world.violations
        self._clients = clients

    async def ask_for_reach(self, host: Host) -> None:
        """Ask a service how far its log reaches."""
        if not self._log.rows:
            return
        before = self._log.rows[-1].seq

        async def reach(service: Service) -> tuple[Any]:
            return (await service.upkeep.log_reach(),)  # which is told from an answer that did not come

        answer = await self._clients.ask(host, "reach", "", None, reach)
        if isinstance(answer, tuple):
            self.reaches.append(Reach(before, self._log.rows[-1].seq, answer[0]))

    async def delete_log(self, host: Host) -> None:
        """Ask a service to delete the log."""
        newest = self._log.rows[-1].seq if self._log.rows else 0

        async def delete(service: Service) -> int:
            await service.upkeep.delete_log()
            return newest

        answer = await self._clients.ask(host, "delete", "", None, delete)
        if isinstance(answer, int):
            self.deleted.append(answer)

    async def check_writing(self, host: Host) -> None:
        """Ask a service whether the log can be written, when nothing is wrong."""
        before = self._log.rows[-1].seq
        answer = await host.service.upkeep.check_writing()  # type: ignore[union-attr]
        # Others may write meanwhile, whose rows are yet to be synced.
        is_written = any(row.kind is Kind.TICK for row in self._log.synced(before))
        if answer or not is_written:
            self._violations.append(f"{host.name}: a look at the log said {answer!r}, and wrote: {is_written}")

    async def check_copies(self, hosts: list[Host]) -> None:
        """Let services clean up, and check that copies of the leader's snapshots are where others find them."""
        for host in hosts:
            assert host.service is not None
            leads = host.service._store.leads
            before = {path.name for path in host.snapshots()}
            try:
                await host.service.upkeep.clean()
            except StoreError:
                leads = False  # the lease ended meanwhile
            if not leads:
                continue
            after = {path.name for path in host.snapshots()}
            copies = {name.split("/")[-1] for name in self._log.files if name.startswith(SNAPSHOTS)}
            if not before & after <= copies <= before | after:
                self._violations.append(f"{host.name} has snapshots {sorted(after)}, and shares {sorted(copies)}")
            self._check_removal(host)

    def _check_removal(self, host: Host) -> None:
        """Check that what is deleted is gone from the disk, but for what the newest snapshot but one lacks."""
        assert host.service is not None
        needed = self._log.row(first_needed_row(host.folder / SNAPSHOTS))
        if needed is None:
            return
        until = min(host.service.upkeep.deleted_until() * SECOND, needed.time)
        if self._log.rows[0].time < round(until):
            self._violations.append(f"{host.name} did not remove what is deleted: row {self._log.rows[0].seq}")


def flaws_of_looks(looks: Looks, rows: list[Row], records: Mapping[int, Any]) -> Iterator[str]:
    """Yield where a service said of its log what the rows do not, or did not delete it."""
    starts = [json.loads(records[row.seq].changes) for row in rows if row.kind is Kind.START]
    newest = max([start["deleted"]["position"] for start in starts if "deleted" in start], default=0)
    if newest < max(looks.deleted, default=0):
        yield f"the log was to be deleted up to row {max(looks.deleted)}, and was up to row {newest}"
    for reach in looks.reaches:
        until = [row for row in rows if row.seq <= reach.after]
        logged = [row for row in until if row.kind in (*CHOICES, Kind.FEEDBACK)]
        # Whether it had read by then that the log was deleted is not known; nor how much of it was gone.
        deleted = {0} | {first - 1 for first, newest in looks.removed if newest <= reach.after}
        deleted |= {
            json.loads(records[row.seq].changes).get("deleted", {}).get("position", 0)
            for row in until
            if row.kind is Kind.START
        }
        firsts = {next((row.time / SECOND for row in logged if row.seq > position), None) for position in deleted}
        if reach.answer is None:
            if None not in firsts and len([row for row in logged if row.seq <= reach.before]) > 0:
                yield f"the log reaches nowhere, expected one of {firsts}"
            continue
        first, newest = reach.answer
        newest_times = {row.time / SECOND for row in until if row.seq >= reach.before}
        if first not in firsts or newest not in newest_times:
            yield f"the log reaches from {first} to {newest}, expected one of {firsts} to one of {newest_times}"

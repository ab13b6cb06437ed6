"""Snapshots of what a service has learned: a restart reads the newest sound one, and only the log behind it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from zoosim.core.blame import reason_of
from zoosim.core.errors import ConfigError, DataError, ZoosimError
from zoosim.core.packed import Packing, read_packed, write_packed
from zoosim.policies.model import Model
from zoosim.policies.persistence import packed_state, unpack_state
from zoosim.serving.arm_replica import ArmReplica
from zoosim.serving.events import Arm, Start, row_checksum
from zoosim.serving.join import FindRows, JoinState
from zoosim.serving.replica import Replica

PACKING = Packing(b"zoosim state 1\n", "snapshot of a service", "remove it: the log holds all", "a service writes it")
KEPT = 5
"""Snapshots that are kept, the newest."""

PREFIX = "state-"

VISITORS_FROM = "visitors from"
"""Key in a snapshot of the time from which it counts the decisions of visitors."""

OF_ARM = "arm:"
"""Prefix of the names of arrays of arms beside the champion, before the name of the arm."""


def write_snapshot(folder: Path, replica: Replica) -> Path:
    """Write what a service has learned up to a tick of its log, whole or not at all, and drop the oldest snapshots."""
    start = replica.start
    assert start is not None
    values, arrays = _state_of(replica.champion)
    others = {}
    for name in [arm.name for arm in start.arms]:
        others[name], other_arrays = _state_of(replica.arms[name])
        arrays |= {f"{OF_ARM}{name}/{array_name}": array for array_name, array in other_arrays.items()}
    header = {
        "position": replica.position,
        "row": "" if replica.newest is None else row_checksum(replica.newest).hex(),
        "model": start.model,
        "turn": start.turn,
        "rules": start.rules.decode(),
        "number": start.number,
        "changes": start.changes.decode(),
        "arms": msgspec.to_builtins(start.arms),
        "salt": start.salt.hex(),
        "who": start.who,
        "why": start.why,
        "others": others,
        **values,
    }
    # With zeros in front, so that names sort by position.
    path = folder / f"{PREFIX}{replica.position:016}"
    write_packed(path, PACKING, header, arrays)
    # Several are kept, since the newest may turn out to be broken; the log holds all rows behind the newest but one.
    for old in _snapshots(folder)[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def _state_of(arm: ArmReplica) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what one arm has learned, as plain values and arrays."""
    state, arrays = packed_state(arm.model.policy)
    products, product_arrays = arm.catalogue.state()
    day, visitor_arrays = arm.visitors.state()
    values = {
        "state": state,
        "products": products,
        "join": arm.join.state(),
        VISITORS_FROM: day,
        "learning": arm.learning.state(),
        "counts": dict(arm.counts),
    }
    return values, {**arrays, **product_arrays, **visitor_arrays}


def newest_replica(
    folder: Path,
    load_model: Callable[[str], Model],
    find_rows: FindRows,
    complain: Callable[[str], None],
) -> Replica:
    """Return what a service had learned when the newest sound snapshot was written; a new replica where there is none.

    Args:
        folder: Where the snapshots lie.
        load_model, find_rows: As in `Replica`.
        complain: Called with a line about each broken snapshot.
    """
    for path in reversed(_snapshots(folder)):
        try:
            return _read_snapshot(path, load_model, find_rows)
        except (DataError, ConfigError) as error:
            complain(f"{error}; an older one is taken")
    return Replica(load_model, find_rows)


def first_needed_row(folder: Path) -> int:
    """Return the position of the first row that is still needed, should the newest snapshot turn out to be broken.

    What is behind the newest snapshot but one is read again from there, and a decision that is open in it is read again
    when it closes. Returns 0 where there are fewer snapshots, or that one cannot be read.
    """
    paths = _snapshots(folder)
    if len(paths) < 2:
        return 0
    try:
        header, _ = read_packed(paths[-2], PACKING)
        joins = [header["join"], *(arm["join"] for arm in header.get("others", {}).values())]
        open_rows = [decision.seq for join in joins for decision in msgspec.convert(join, JoinState).open.values()]
        return min([int(header["position"]), *open_rows])
    except (DataError, msgspec.MsgspecError, LookupError, ValueError, TypeError, AttributeError):
        return 0


def _read_snapshot(path: Path, load_model: Callable[[str], Model], find_rows: FindRows) -> Replica:
    header, arrays = read_packed(path, PACKING)
    replica = Replica(load_model, find_rows)
    try:
        # Before states are loaded, as it makes the policy, the join and the catalogue that take them. The models' own
        # files, and not the snapshot, say what these are made of.
        replica.begin(_start_in(header))
        for arm in replica.arms.values():
            if arm is replica.champion:
                _load_state(arm, header, {name: each for name, each in arrays.items() if not name.startswith(OF_ARM)})
                continue
            prefix = f"{OF_ARM}{arm.name}/"
            own = {name.removeprefix(prefix): each for name, each in arrays.items() if name.startswith(prefix)}
            _load_state(arm, header["others"][arm.name], own)
        replica.position = int(header["position"])
        checksum = bytes.fromhex(header["row"])
    except ZoosimError as error:
        raise DataError(f"{path}: cannot be used: {error}") from None
    except Exception as error:  # whatever a file that somebody made on purpose may raise
        raise PACKING.broken(path, reason_of(error)) from None
    # A snapshot is of one log. Where a server lost rows, or a backup of the log was put back, it may hold lessons of
    # rows that the log does not have: then an older one is taken.
    replica.newest = find_rows([replica.position]).get(replica.position)
    if replica.newest is None or row_checksum(replica.newest) != checksum:
        raise DataError(f"{path}: ends at row {replica.position:,}, which is not in the log, or not the same there")
    return replica


def _load_state(arm: ArmReplica, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Give an arm what `_state_of` returned; raises whatever a broken file may lead to."""
    arm.join.load_state(values["join"])
    arm.catalogue.load_state(values["products"], arrays)
    unpack_state(arm.model.policy, values["state"], arrays)
    if VISITORS_FROM in values:  # earlier releases counted nobody, or by hashes of ids
        arm.visitors.load_state(values[VISITORS_FROM], arrays, arm.visitor_at)
    arm.learning.load_state(values.get("learning", values))  # earlier releases kept it beside the rest
    arm.counts.update({str(name): int(count) for name, count in dict(values["counts"]).items()})


def _start_in(header: Mapping[str, Any]) -> Start:
    return Start(
        model=str(header["model"]),
        rules=str(header["rules"]).encode(),
        turn=int(header["turn"]),
        number=int(header["number"]),
        changes=str(header["changes"]).encode(),
        # Earlier releases wrote none of these.
        arms=msgspec.convert(header.get("arms", []), list[Arm]),
        salt=bytes.fromhex(header.get("salt", "")),
        who=str(header.get("who", "")),
        why=str(header.get("why", "")),
    )


def _snapshots(folder: Path) -> list[Path]:
    """Return the snapshots, oldest first."""
    return sorted(path for path in folder.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdigit())

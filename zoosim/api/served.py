"""Logs of services: read where any log is expected, and exported to files that every tool reads."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.calls import public_call
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.extras import needs_extra
from zoosim.core.parameters import unknown

if TYPE_CHECKING:
    from zoosim.logs.log import Log
    from zoosim.serving.store.address import Address


def open_log(source: Any, *, action_space: Any = None, columns: Sequence[str] = (), **options: Any) -> "Log":
    """Return the log that a source names or holds: as `load_log`, or that of a service.

    Args:
        source: What `load_log` takes, or the folder or address of a service.
        action_space: Name of the action space that the log must be of; None for any.
        columns: Columns that are read beside those that evaluation needs.
        **options: Further ones of `load_log`.

    Raises:
        ConfigError: an option does not go with the log, or a column is not there.
        DataError: the log cannot be read.
    """
    from zoosim.serving.store.address import find_log

    address = find_log(source)
    if address is None:
        from zoosim.logs.load import load_log

        return load_log(source, action_space=action_space, columns=columns, **options)
    from zoosim.serving.served_log import read_served_log

    set_options = [name for name in ("data", "a_max") if options.get(name) is not None]
    if set_options:
        raise ConfigError(f"{set_options[0]}: does not go with the log of a service, {address.source}; leave it out")
    log = read_served_log(address, action_space=action_space).log
    missing = [name for name in columns if name not in log.rewards_by_name]
    if missing:
        raise ConfigError(f"{log.source}: {unknown('no column', missing[0], list(log.rewards_by_name))}")
    # Rewards by name are the only further numbers that a service's log has.
    return replace(log, columns={name: log.rewards_by_name[name] for name in columns})


@public_call
def export_log(service: str | os.PathLike[str], out: str | os.PathLike[str]) -> dict[str, int]:
    """Write what a service decided as a log that every tool reads, or a log of lives as a data set of Minari.

    A service may go on meanwhile.

    Where every decision showed equally many products, more than one, it is a log of rankings; else what stood at the
    top is written. Columns that no tool takes for features say what decided each visit: `arm`, `policy`, the policy's
    name, and `model` and `policy_version`, the digest of its model. `propensity` is that over all arms, as evaluation
    needs it, `arm_propensity` that given the arm.

    Where `out` ends in .minari, it is a folder with an episode per visitor, which `minari.MinariDataset(out)` opens
    (`zoosim.logs.episodes`).

    Args:
        service: The folder of the service, or the address of its log on a server (`redis://...`); for Minari also the
            file of a log.
        out: The Parquet file to write; the table of its products, `catalogue-HASH.parquet`, comes beside it. Or the
            folder to write, which ends in .minari.

    Returns:
        How many decisions were left out, by reason.

    Raises:
        ConfigError: `out` does not end in .parquet or .minari, its folder is not there, or Minari is not installed.
        DataError: there is no log of a service, it is broken, no decision is over, or it tells no lives for Minari.
        StoreError: the server of the log does not answer.
    """
    from zoosim.core.files import checked_file
    from zoosim.logs.episodes import SUFFIX
    from zoosim.logs.write import to_records, write_records
    from zoosim.serving.served_log import read_served_log

    if Path(out).suffix == SUFFIX:
        return _export_episodes(service, checked_file("export", out, SUFFIX))
    path = checked_file("export", out, ".parquet")
    served = read_served_log(_address_of(service, "export"))
    log = served.log
    columns = {
        "decision_id": served.decision_ids,
        "arm": served.arms,
        "policy": served.policies,
        "policy_version": served.models,
        "model": served.models,
    }
    records, products = to_records(log, columns)
    records = records.with_columns(arm_propensity=served.arm_propensities.ravel())
    assert log.fitted is not None
    write_records(records, products, path, log.fitted, list(log.rewards_by_name))
    return dict(log.skipped)


def _export_episodes(source: str | os.PathLike[str], folder: Path) -> dict[str, int]:
    """Write a log of lives as a data set of Minari; return how many rows were left out, by reason."""
    from zoosim.logs.episodes import write_episodes

    needs_extra("export", "minari")
    log = open_log(source)
    write_episodes(log, folder)
    return dict(log.skipped)


@public_call
def forget_visitor(service: str | os.PathLike[str], visitor_id: str) -> int:
    """Take a visitor out of the log of a service: the id, the features, and the hash of each request.

    Rows keep their positions and what was shown. Decisions and searches of the visitor are learned from no more, and no
    tool reads them. Ids of decisions and feedback that hold the visitor's id are replaced. Snapshots and models never
    name what fewer than 20 visitors had; what decisions moved before stays in their numbers.

    Args:
        service: The folder of the service, which may go on meanwhile, or the address of its log on a server
            (`redis://...`).
        visitor_id: The `visitor_id` of the visitor's requests.

    Returns:
        How many decisions there were.

    Raises:
        ConfigError: `visitor_id` is empty.
        DataError: there is no log of a service, or it is broken.
        StoreError: the log cannot be written.
    """
    from zoosim.serving import forgetting

    if not visitor_id:
        raise ConfigError("forget: got an empty visitor_id, expected that of a visitor")
    return forgetting.forget_visitor(_address_of(service, "forget"), visitor_id)


def _address_of(service: str | os.PathLike[str], command: str) -> "Address":
    """Return where the log of a service lies; raises `DataError` for what is none."""
    from zoosim.serving.store.address import find_log

    address = find_log(service)
    if address is None:
        expected = "the folder of a service, or redis://HOST:PORT/DB?name=LOOP"
        raise DataError(f"{command}: got {str(service)!r}, expected {expected} (zoosim serve --store)")
    return address

"""Executors of clusters by their address: `dask:ADDRESS` and `ray:ADDRESS`."""

import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager

from zoosim.core.blame import reason_of
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown

TIMEOUT = 10.0
"""Seconds within which a cluster has to answer."""


def check_executor(executor: "Executor | str") -> None:
    """Refuse with `ConfigError` what is neither an executor nor the address of a cluster, which is not asked yet."""
    scheme, _, address = executor.partition(":") if isinstance(executor, str) else ("", "", "")
    if not isinstance(executor, Executor) and (scheme not in CLUSTERS or not address):
        raise ConfigError(
            f"executor: got {shown(executor)}, expected {' or '.join(f'{name}:ADDRESS' for name in CLUSTERS)}, or in "
            "Python a concurrent.futures.Executor"
        )


@contextmanager
def open_executor(executor: "Executor | str") -> Iterator[Executor]:
    """Yield an executor, as it is or by the address of a cluster, which is left when the block ends.

    Raises:
        ConfigError: it is neither, its package is not installed, or nobody answers at the address.
    """
    check_executor(executor)
    if isinstance(executor, Executor):
        yield executor
        return
    scheme, _, address = executor.partition(":")
    _check_answers(address)
    try:
        cluster = CLUSTERS[scheme](address)
        opened = cluster.__enter__()
    except ModuleNotFoundError:  # of an extra: whoever called says which
        raise
    except Exception as error:
        raise ConfigError(
            f"executor: cannot join {scheme} at {address} ({reason_of(error)}); see that it runs"
        ) from error
    try:
        yield opened
    finally:
        cluster.__exit__(None, None, None)


def _check_answers(address: str) -> None:
    """Refuse an address with a port at which nobody listens: libraries try that for minutes, and log each try."""
    named = re.fullmatch(r"(?:[a-z]+://)?\[?(.+?)\]?:(\d{1,5})/?", address)
    if named is None:
        return
    try:
        socket.create_connection((named[1], int(named[2])), TIMEOUT).close()
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"executor: nobody answers at {address} ({reason}); see that the cluster runs there"
        ) from None


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    """Yield the executor of a scheduler of Dask, such as that of `tcp://10.0.0.5:8786`."""
    from distributed import Client

    with Client(address, timeout=TIMEOUT, set_as_default=False) as client:
        yield client.get_executor(pure=False)


@contextmanager
def _ray(address: str) -> Iterator[Executor]:
    """Yield an executor of a cluster of Ray: `auto` for that of this machine, `HOST:PORT`, or `ray://HOST:PORT`."""
    import ray

    from zoosim.arena.backends.ray_executor import RayExecutor

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        yield RayExecutor()
    finally:
        ray.shutdown()


CLUSTERS: dict[str, Callable[[str], AbstractContextManager[Executor]]] = {"dask": _dask, "ray": _ray}

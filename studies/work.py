"""Work that a study does for each seed, side by side on several processes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from studies.shops import ShopChanges, read_shop
from studies.side_by_side import side_by_side
from zoosim.arena.backends.local import default_jobs
from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import unknown
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds

T = TypeVar("T")
R = TypeVar("R")


def names_of(study: str, kind: str, names: Any, known: Sequence[str], example: str) -> list[str]:
    """Return the names that an option lists; all that are known where it is None.

    Args:
        study: The study.
        kind: The name of one of them, such as "world"; the option is its plural.
        names: What the option holds.
        known: Names that it may hold.
        example: Such names, as a list in words.

    Raises:
        ConfigError: it is no list of such names, each once.
    """
    if names is None:
        return list(known)
    if not isinstance(names, list) or not names:
        raise ConfigError(f"{study}: {kind}s: got {names!r}, expected a list such as {example}")
    for name in names:
        if name not in known:
            raise ConfigError(unknown(f"{study}: unknown {kind}", str(name), list(known)))
        if names.count(name) > 1:
            raise ConfigError(f"{study}: got the {kind} {name!r} twice, expected each once")
    return names


def jobs_of(jobs: Any) -> int:
    """Return the number of processes, one per core for None; raises `ConfigError` for what is no number."""
    return check_whole("jobs", default_jobs() if jobs is None else jobs, 1, 1_024)


def measure_in_shops(work: Callable[[SearchConfig, int], Sequence[R]], seeds: str) -> Callable[..., list[R]]:
    """Return the `measure` of a study that does `work(shop, seed)` in a search shop for each seed.

    It takes `seeds`, such as "1000:1020", `jobs`, a `config` that changes the shop, and `progress`.
    """

    def measure(
        *, seeds: Any = seeds, jobs: Any = None, config: ShopChanges = None, progress: Progress = lambda line: None
    ) -> list[R]:
        return rows_by_seed(partial(work, read_shop(config)), seeds, jobs=jobs, progress=progress)

    return measure


def rows_by_seed(work: Callable[[int], Sequence[R]], seeds: Any, *, jobs: Any, progress: Progress) -> list[R]:
    """Return the rows that `work` finds at each of the `seeds`, in their order; see `rows_by_task`."""
    return rows_by_task(work, parse_seeds(seeds), jobs=jobs, words=lambda seed: f"seed {seed}", progress=progress)


def rows_by_task(
    work: Callable[[T], Sequence[R]], tasks: Sequence[T], *, jobs: Any, words: Callable[[T], str], progress: Progress
) -> list[R]:
    """Return the rows that `work` finds at each of the `tasks`, in their order, the same for any number of `jobs`.

    `work` is a function of a module, or a `partial` of one; `words` tells of a task that is done.
    """
    finished = list[T]()

    def done(task: T, _: Sequence[R]) -> None:
        finished.append(task)
        progress(f"{len(finished)} of {len(tasks)}: {words(task)}")

    found = side_by_side(work, tasks, jobs=jobs_of(jobs), done=done)
    return [row for rows in found for row in rows]

"""The cells of the coverage study, fixed in advance: a world, the distance of the target policy, and a log size."""

from typing import NamedTuple

from studies.boost_logs import BoostLogs, BoostSettings
from studies.known_logs import PLAIN, KnownLogs, Settings
from studies.ranking_logs import RankingLogs, RankingSettings
from studies.search_logs import SearchLogs, SearchSettings
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log

ENOUGH, LARGEST = 100.0, 0.05
"""A sound log has so many effective rows in expectation, or more, and no weight above this share of its rows."""

SEARCH, RANKINGS = "search, templates", "rankings, 3 of 6"
Logs = KnownLogs | SearchLogs | RankingLogs | BoostLogs
WORLDS: dict[str, Settings | SearchSettings | RankingSettings | BoostSettings] = {
    "clicks, uniform log": PLAIN,
    "clicks, learned log": PLAIN._replace(contexts=8, floor=0.2),
    "30 actions, rare clicks": PLAIN._replace(actions=30, rate=0.02, floor=0.2),
    "users of 5 rows": PLAIN._replace(floor=0.2, rows_a_user=5, taste=0.8),
    "drift, coarse features": PLAIN._replace(floor=0.2, drift=0.5, coarse=True),
    "amounts": PLAIN._replace(floor=0.2, rate=0.3, amounts=True),
    SEARCH: SearchSettings(distance=0.0, floor=0.2, n=0),
    "no floor": PLAIN._replace(floor=0.0),
    "propensities off": PLAIN._replace(floor=0.2, wrong=0.5),
    "2 actions missing": PLAIN._replace(floor=0.2, missing=2),
    RANKINGS: RankingSettings(distance=0.0, floor=0.2, n=0),
    "1 boost": BoostSettings(d=1, distance=0.0, n=0),
    "2 boosts": BoostSettings(d=2, distance=0.0, n=0),
    "2 boosts, kinked": BoostSettings(d=2, distance=0.0, n=0, kinked=True),
    "3 boosts": BoostSettings(d=3, distance=0.0, n=0),
    "10 boosts": BoostSettings(d=10, distance=0.0, n=0),
}
PLACES = (
    *((world, n, distance) for world in list(WORLDS)[:2] for n in (1_000, 10_000) for distance in (0.5, 2.0)),
    *(("30 actions, rare clicks", 10_000, distance) for distance in (0.5, 1.0)),
    *(("users of 5 rows", 3_000, distance) for distance in (0.5, 2.0)),
    ("drift, coarse features", 3_000, 1.0),
    ("amounts", 3_000, 1.0),
    *((SEARCH, n, distance) for n in (3_000, 10_000) for distance in (0.5, 2.0)),
    ("clicks, learned log", 300, 0.5),
    *(("no floor", n, 3.0) for n in (300, 1_000)),
    ("propensities off", 3_000, 1.0),
    ("2 actions missing", 3_000, 1.0),
    *((RANKINGS, n, distance) for n, distance in ((1_000, 0.5), (10_000, 0.5), (10_000, 1.0))),
    *((world, 3_000, 0.3) for world in ("1 boost", "2 boosts", "2 boosts, kinked", "3 boosts", "10 boosts")),
)


class Cell(NamedTuple):
    """A `world` of `WORLDS`, a log of `n` rows, and a target at a `distance` from the policy that writes the log."""

    world: str
    n: int
    distance: float


CELLS = tuple(Cell(*place) for place in PLACES)


def logs_of(cell: Cell, shop: SearchConfig | None = None) -> Logs:
    """Return the logs of a cell; a world's tables and logging policy are the same in all of its cells.

    `shop` is the search shop of cells that need one, by default that of `search_logs`.
    """
    settings, rng = WORLDS[cell.world], stream(0, "off-policy coverage", cell.world)
    if isinstance(settings, Settings):
        return KnownLogs(settings._replace(n=cell.n, distance=cell.distance), rng)
    if isinstance(settings, SearchSettings):
        return SearchLogs(settings._replace(n=cell.n, distance=cell.distance), rng, shop)
    if isinstance(settings, RankingSettings):
        return RankingLogs(settings._replace(n=cell.n, distance=cell.distance), rng)
    return BoostLogs(settings._replace(n=cell.n, distance=cell.distance), rng)


def draw(cell: Cell, logs: Logs, seed: int) -> tuple[Log, FloatArray]:
    """Draw a log of a cell, and the target's probabilities, or boosts, for its rows."""
    return logs.draw(stream(seed, "off-policy log", *map(str, cell)))


def sound(logs: Logs) -> bool:
    """Tell whether logs are sound: not at fault, of `ENOUGH` effective rows, and without too large a weight."""
    if logs.faulty or logs.effective is None:
        return False
    return logs.effective >= ENOUGH and logs.largest <= LARGEST * logs.settings.n

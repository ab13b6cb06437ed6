"""A search world: catalogue and users, and who types what at each visit.

All that is drawn of a visit depends on (seed, visit) alone, by counter-based hashes, so no policy and no batch size
moves it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.normals import fill_normals
from zoosim.core.rng import stream, stream_key, uniform
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, IntArray
from zoosim.world.catalogue import Catalogue, draw_catalogue, draw_embeddings
from zoosim.world.tables import catalogue_of, settled, users_of
from zoosim.world.users import Users, draw_users
from zoosim.world.world import frozen

SEGMENT, USER, INTENT, TYPE, TOKENS = range(5)
"""Numbers of a visit's draws; tokens are drawn from TOKENS on."""


class Shares(NamedTuple):
    """Cumulative shares of `segments (S,)` and query `types (T,)`, the last ones 1."""

    segments: FloatArray
    types: FloatArray


class Queries(NamedTuple):
    """The visits `start` to `start + n - 1`: `users (n,)`, `intents (n,)` by category, `types (n,)`.

    `tokens (n, R)`, random ones of the vocabulary; `embeddings (n, d)` of the queries.
    """

    start: int
    users: IntArray
    intents: IntArray
    types: IntArray
    tokens: IntArray
    embeddings: FloatArray


@dataclass(frozen=True, eq=False)
class SearchWorld:
    """A shop of one seed: `config`, `catalogue`, `users`; visits are numbered from 0 and never run out."""

    config: SearchConfig
    seed: int
    catalogue: Catalogue
    users: Users

    @cached_property
    def keys(self) -> dict[str, np.uint64]:
        """Return the keys of counter-based draws by what is drawn."""
        names = ("visits", "queries", "relevance", "utility", "examination", "clicks", "purchases")
        return {name: stream_key(self.seed, "search", name) for name in names}

    @cached_property
    def shares(self) -> Shares:
        """Return the cumulative shares of segments and query types."""
        kinds = (self.config.segments.values(), self.config.query_types.values())
        return Shares(*(_cumulative([kind.share for kind in part]) for part in kinds))

    @cached_property
    def overlap(self) -> FloatArray:
        """Return how many words query categories and product categories share, `(C, C)`."""
        words = [set(kind.words) for kind in self.config.categories.values()]
        return np.array([[len(left & right) for right in words] for left in words], float)

    def queries(self, start: int, stop: int) -> Queries:
        """Return the visits `start` to `stop - 1`."""
        n, config = stop - start, self.config
        users, intents, types = np.zeros((3, n), np.int64)
        tokens, embeddings = np.zeros((n, config.random_tokens), np.int64), np.empty((n, config.embedding_dim))
        found = Queries(start, users, intents, types, tokens, embeddings)
        keys = (self.keys["visits"], self.keys["queries"])
        _draw(found, *keys, self.shares, self.users, config.vocabulary, config.query_sd)
        return found


def build_search_world(config: SearchConfig, *, seed: int) -> SearchWorld:
    """Build the world of a seed; raises `DataError` for files that do not hold what they should."""
    catalogue_rng, users_rng = stream(seed, "search", "catalogue"), stream(seed, "search", "users")
    config = settled(config)
    catalogue = catalogue_of(config) if config.catalogue_file else draw_catalogue(config, rng=catalogue_rng)
    if not catalogue.embeddings.shape[1]:
        catalogue = catalogue._replace(embeddings=draw_embeddings(config, catalogue.category, rng=catalogue_rng))
    users = users_of(config) if config.users_file else draw_users(config, rng=users_rng)
    if not len(users.embeddings):
        users = users._replace(embeddings=frozen(users_rng.normal(size=(len(users.segment), config.embedding_dim))))
    return SearchWorld(config, seed, catalogue, users)


@jit
def _draw(
    out: Queries,
    visits: np.uint64,
    noise: np.uint64,
    shares: Shares,
    users: Users,
    vocabulary: int,
    query_sd: float,
) -> None:
    for i in range(out.users.shape[0]):
        t = out.start + i
        segment = _pick(shares.segments, uniform(visits, t, SEGMENT))
        first, behind = users.bounds[segment], users.bounds[segment + 1]
        user = first + int(uniform(visits, t, USER) * (behind - first))
        out.users[i] = user
        out.intents[i] = _pick(np.cumsum(users.category_tastes[user]), uniform(visits, t, INTENT))
        out.types[i] = _pick(shares.types, uniform(visits, t, TYPE))
        for j in range(out.tokens.shape[1]):
            out.tokens[i, j] = int(uniform(visits, t, TOKENS + j) * vocabulary)
        fill_normals(noise, t, out.embeddings[i])
        for j in range(out.embeddings.shape[1]):
            out.embeddings[i, j] = users.embeddings[user, j] + query_sd * out.embeddings[i, j]


@jit
def _pick(cumulative: FloatArray, draw: float) -> int:
    """Return the first place where `cumulative (n,)` is above `draw`, the last where rounding leaves none."""
    place = 0
    while place < cumulative.shape[0] - 1 and cumulative[place] <= draw:
        place += 1
    return place


def _cumulative(shares: list[float]) -> FloatArray:
    total: FloatArray = np.cumsum(shares) / np.sum(shares)
    total[-1] = 1.0
    return total

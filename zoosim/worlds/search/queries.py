"""What visitors type: drawn from their tastes, or from a shop's own table of queries."""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.normals import fill_normals
from zoosim.core.rng import uniform
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.market import Shares
from zoosim.worlds.search.users import Users

SEGMENT, USER, INTENT, TYPE, TOKENS = range(5)
"""Numbers of a visit's draws; tokens are drawn from TOKENS on."""


class QueryTable(NamedTuple):
    """Q queries sorted by category: their `types (Q,)` and `weights (Q,)`, cumulative within a category up to 1.

    Those of category c are `bounds[c]` to `bounds[c + 1]` - 1. `embeddings (Q, d)`, or `(0, d)`: near the user's own.
    `mix (C, T)`: the shares of the types among a category's queries, zeros where it has none. `shared (Q, C)`: how many
    words each shares with the categories. Without a table Q is 0, and `shared (C, C)` has a
    row for each category that a query may mean.
    """

    types: IntArray
    weights: FloatArray
    bounds: IntArray
    embeddings: FloatArray
    mix: FloatArray
    shared: FloatArray


class Queries(NamedTuple):
    """The visits `steps (n,)`: `users (n,)`, `intents (n,)` by category, `types (n,)`.

    `rows (n,)` of `QueryTable.shared`; `tokens (n, R)`, random ones of the vocabulary; `embeddings (n, d)` of the
    queries.
    """

    steps: IntArray
    users: IntArray
    intents: IntArray
    types: IntArray
    rows: IntArray
    tokens: IntArray
    embeddings: FloatArray

    def of(self, chosen: Any) -> "Queries":
        """Return some of these visits, by a slice, indices or a mask."""
        numbers = (self.users[chosen], self.intents[chosen], self.types[chosen], self.rows[chosen])
        return Queries(self.steps[chosen], *numbers, self.tokens[chosen], self.embeddings[chosen])


def empty_queries(start: int, stop: int, tokens: int, dim: int) -> Queries:
    """Return the visits `start` to `stop - 1`, which are still to be drawn."""
    n = stop - start
    users, intents, types, rows = np.zeros((4, n), np.int64)
    return Queries(
        np.arange(start, stop), users, intents, types, rows, np.zeros((n, tokens), np.int64), np.empty((n, dim))
    )


@jit
def draw_queries(
    out: Queries,
    visits: np.uint64,
    noise: np.uint64,
    shares: Shares,
    users: Users,
    table: QueryTable,
    vocabulary: int,
    query_sd: float,
) -> None:
    """Draw who comes and what is typed, by counter-based draws of `visits` and `noise`."""
    for i in range(out.users.shape[0]):
        t = out.steps[i]
        segment = _pick(shares.segments, uniform(visits, t, SEGMENT))
        first, behind = users.bounds[segment], users.bounds[segment + 1]
        user = first + int(uniform(visits, t, USER) * (behind - first))
        out.users[i] = user
        if table.types.shape[0] == 0:
            out.intents[i] = _pick(np.cumsum(users.category_tastes[user]), uniform(visits, t, INTENT))
            out.types[i] = _pick(shares.types, uniform(visits, t, TYPE))
            out.rows[i] = out.intents[i]
        else:
            _look_up(out, i, users.category_tastes[user], table, uniform(visits, t, INTENT), uniform(visits, t, TYPE))
        for j in range(out.tokens.shape[1]):
            out.tokens[i, j] = int(uniform(visits, t, TOKENS + j) * vocabulary)
        if table.embeddings.shape[0] > 0:
            out.embeddings[i] = table.embeddings[out.rows[i]]
        else:
            fill_normals(noise, t, out.embeddings[i])
            for j in range(out.embeddings.shape[1]):
                out.embeddings[i, j] = users.embeddings[user, j] + query_sd * out.embeddings[i, j]


@jit
def _look_up(out: Queries, i: int, tastes: FloatArray, table: QueryTable, intent: float, place: float) -> None:
    """Choose a category that has queries, by `tastes (C,)`, and one of its queries, by their weights."""
    chances = np.zeros(tastes.shape[0])
    for c in range(tastes.shape[0]):
        chances[c] = tastes[c] if table.bounds[c] < table.bounds[c + 1] else 0.0
    if np.sum(chances) <= 0.0:  # who has no taste for what can be asked for asks for anything
        for c in range(tastes.shape[0]):
            chances[c] = 1.0 if table.bounds[c] < table.bounds[c + 1] else 0.0
    category = _pick(np.cumsum(chances) / np.sum(chances), intent)
    while table.bounds[category] == table.bounds[category + 1]:  # rounding may leave the last one
        category -= 1
    first, behind = table.bounds[category], table.bounds[category + 1]
    row = first + _pick(table.weights[first:behind], place)
    out.intents[i], out.rows[i], out.types[i] = category, row, table.types[row]


@jit
def _pick(cumulative: FloatArray, draw: float) -> int:
    """Return the first place where `cumulative (n,)` is above `draw`, the last where rounding leaves none."""
    low, high = 0, cumulative.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] <= draw:
            low = middle + 1
        else:
            high = middle
    return low

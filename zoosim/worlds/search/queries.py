"""Visitors of a search shop and what they type, drawn from tastes or from a shop's own table of queries."""

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
    """A shop's own Q queries, sorted by category: `types (Q,)`, and `weights (Q,)`, cumulative within a category to 1.

    Those of category c are `bounds[c]` to `bounds[c + 1]` - 1. `embeddings (Q, d)`, or `(0, d)`: near the user's own.
    `mix (C, T)`: the shares of the types among a category's queries, zeros where it has none. `shared (Q, C)`: how many
    words each shares with the categories. Without a table Q is 0, and `shared (C, C)` has a row for each category that
    a query may mean.

    Where the shop has base scores of its own, the candidates of query q are `candidates[starts[q] : starts[q + 1]]`,
    indices of products, with their `scores`; else `starts` is empty.
    """

    types: IntArray
    weights: FloatArray
    bounds: IntArray
    embeddings: FloatArray
    mix: FloatArray
    shared: FloatArray
    starts: IntArray
    candidates: IntArray
    scores: FloatArray


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
        return Queries(*(column[chosen] for column in self))


def empty_queries(start: int, stop: int, tokens: int, dim: int) -> Queries:
    """Return visits that are still to be drawn.

    Args:
        start, stop: The visits are `start` to `stop - 1`.
        tokens: Number of random tokens of each query.
        dim: Length of embeddings.
    """
    n = stop - start
    users, intents, types, rows = np.zeros((4, n), np.int64)
    return Queries(
        steps=np.arange(start, stop),
        users=users,
        intents=intents,
        types=types,
        rows=rows,
        tokens=np.zeros((n, tokens), np.int64),
        embeddings=np.empty((n, dim)),
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
    """Draw who comes and what is typed.

    All is counter-based by (visit, number of the draw), so that a visit is the same in every batch.

    Args:
        out: The visits, whose columns are filled.
        visits, noise: Keys of the draws; `noise` is that of embeddings.
        shares: Cumulative shares of segments and query types.
        users: The population.
        table: The shop's own queries, or a table without any.
        vocabulary: Number of tokens that random ones are drawn from.
        query_sd: Standard deviation of a query's embedding around the user's.
    """
    for i in range(out.users.shape[0]):
        t = out.steps[i]
        segment = _pick(shares.segments, uniform(visits, t, SEGMENT))
        first = users.bounds[segment]
        end = users.bounds[segment + 1]
        user = first + int(uniform(visits, t, USER) * (end - first))
        out.users[i] = user
        if table.types.shape[0] == 0:
            out.intents[i] = _pick(np.cumsum(users.category_tastes[user]), uniform(visits, t, INTENT))
            out.types[i] = _pick(shares.types, uniform(visits, t, TYPE))
            out.rows[i] = out.intents[i]
        else:
            intent_draw = uniform(visits, t, INTENT)
            row_draw = uniform(visits, t, TYPE)
            _draw_row(out, i, users.category_tastes[user], table, intent_draw, row_draw)
        for j in range(out.tokens.shape[1]):
            out.tokens[i, j] = int(uniform(visits, t, TOKENS + j) * vocabulary)
        if table.embeddings.shape[0] > 0:
            out.embeddings[i] = table.embeddings[out.rows[i]]
        else:
            fill_normals(noise, t, out.embeddings[i])
            for j in range(out.embeddings.shape[1]):
                out.embeddings[i, j] = users.embeddings[user, j] + query_sd * out.embeddings[i, j]


@jit
def _draw_row(out: Queries, i: int, tastes: FloatArray, table: QueryTable, intent_draw: float, row_draw: float) -> None:
    """Draw a category that has queries, by `tastes (C,)`, and one of its queries, by their weights."""
    # Who would mean a category that has no queries means one of the others, by the tastes for these.
    chances = np.zeros(tastes.shape[0])
    for c in range(tastes.shape[0]):
        chances[c] = tastes[c] if table.bounds[c] < table.bounds[c + 1] else 0.0
    if np.sum(chances) <= 0.0:  # no taste for any category with queries: all of them are as likely
        for c in range(tastes.shape[0]):
            chances[c] = 1.0 if table.bounds[c] < table.bounds[c + 1] else 0.0
    category = _pick(np.cumsum(chances) / np.sum(chances), intent_draw)
    while table.bounds[category] == table.bounds[category + 1]:  # after rounding the draw may fall on the last category
        category -= 1
    first = table.bounds[category]
    end = table.bounds[category + 1]
    row = first + _pick(table.weights[first:end], row_draw)
    out.intents[i] = category
    out.rows[i] = row
    out.types[i] = table.types[row]


@jit
def _pick(cumulative: FloatArray, draw: float) -> int:
    """Return the first place where `cumulative (n,)` is above `draw`, the last where rounding leaves none."""
    low = 0
    high = cumulative.shape[0] - 1
    # By bisection, as a category may have many queries.
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] <= draw:
            low = middle + 1
        else:
            high = middle
    return low

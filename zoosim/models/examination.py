"""The positions of a ranking that a visitor looked at, inferred from the clicks: from the top on, until the visit ends.

At position n, once reached, a visitor of query type t looks with probability look[t, n], else leaves; what is looked at
is clicked with a chance of its own. A cascade with abandonment (Craswell et al. 2008; Chapelle & Zhang 2009), its table
estimated by expectation and maximisation.
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray


@jit
def looked_at(clicks: BoolArray, chances: FloatArray, look: FloatArray, out: FloatArray) -> None:
    """Write to `out (m,)` the probability that each position was looked at, given all clicks.

    `clicks (m,)`, `chances (m,)` of a click where looked at, `look (m,)`. All positions up to the last click were; of
    those behind it each the less, the likelier a click would have been.
    """
    m = clicks.shape[0]
    last = -1
    for n in range(m):
        if clicks[n]:
            last = n
    quiet = 1.0  # the probability that no click follows, position n having been looked at
    for n in range(m - 1, last, -1):
        # Bayes' rule, from the bottom: without a click from here on, a visitor looked and went on quietly, or left.
        on = look[n] * (1.0 - chances[n]) * quiet
        quiet = 1.0 - look[n] + on
        out[n] = on / quiet if quiet > 0.0 else 0.0
    # So far given that the position above was looked at; from the top on, whether it was is counted in.
    for n in range(m):
        out[n] = 1.0 if n <= last else out[n] * (out[n - 1] if n > 0 else 1.0)


@jit
def count_looks(seen: FloatArray, counts: FloatArray) -> None:
    """Add to `counts (m, 2)` the positions that were probably reached, and looked at, by `seen (m,)`."""
    # A position is reached when the one above it was looked at; the first one always is.
    before = 1.0
    for n in range(seen.shape[0]):
        counts[n, 0] += before
        counts[n, 1] += seen[n]
        before = seen[n]


@jit
def look_table(counts: FloatArray, prior: FloatArray, smooth: float, pooled: float, out: FloatArray) -> None:
    """Write to `out (T, m)` the estimates by `counts (T, m, 2)`.

    Each is shrunk to that of all types at its position, as if `pooled` positions had been reached at that rate; this
    one to the rate of all positions, by `smooth`; and that to `prior (2,)`, positions reached and looked at.
    """
    every = (prior[1] + np.sum(counts[:, :, 1])) / (prior[0] + np.sum(counts[:, :, 0]))
    for n in range(out.shape[1]):
        rate = (smooth * every + np.sum(counts[:, n, 1])) / (smooth + np.sum(counts[:, n, 0]))
        for t in range(out.shape[0]):
            out[t, n] = (counts[t, n, 1] + pooled * rate) / (counts[t, n, 0] + pooled)

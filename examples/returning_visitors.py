"""A world whose visitors come back: a teaser brings clicks now, and fewer when its reader is here again.

Check it with `zoosim check-world examples/returning_visitors.py:Newsstand`, and compare policies in it with
`zoosim run examples/returning_visitors.py:Newsstand --seeds 10`.
"""

from typing import NamedTuple

import numpy as np

import zoosim

CLICKS = np.array([[0.6, 0.3], [0.2, 0.5]])
"""Click probability of the teaser and of the report (columns), for readers of two kinds (rows)."""

LEFT = np.array([1.0, 0.2, 1.0])
"""What is left of it on the first day, and on the second after the teaser and after the report."""


class Visit(NamedTuple):
    """A reader by number, of which kind, and what was shown on the day before: 0 nothing, 1 teaser, 2 report."""

    reader: int
    kind: int
    before: int


class Newsstand(zoosim.World):
    """Show a teaser or a report to each reader, on two days."""

    name = "newsstand"
    default_steps = 2_000
    episodic = True

    def spec(self, steps: int) -> zoosim.PolicySpec:
        """Return how many features readers and articles have."""
        return zoosim.PolicySpec(user_dim=4, product_dim=2, steps=steps)

    def arrive(self, step: int) -> Visit:
        """Return the first day of reader number `step`."""
        return Visit(step, int(self.rng("kind", step).integers(2)), 0)

    def context(self, visit: Visit) -> zoosim.Context:
        """Return what the shop knows: the kind of reader, and what was shown on the day before."""
        user = np.array([visit.kind, visit.before == 0, visit.before == 1, visit.before == 2], float)
        arrays = {"user": user, "product_ids": np.arange(2), "products": np.eye(2), "available": np.ones(2, bool)}
        for array in arrays.values():
            array.setflags(write=False)
        return zoosim.Context(user_id=visit.reader, **arrays)

    def serve(self, visit: Visit, action: int) -> zoosim.Outcome:
        """Return 1.0 for a click, else 0.0, by a draw for each reader, day and article; and the second day."""
        day = int(visit.before > 0)
        draw = self.rng("click", visit.reader, day, action).random()
        click = float(draw < CLICKS[visit.kind, action] * LEFT[visit.before])
        second_day = zoosim.Next(visit._replace(before=action + 1))
        return zoosim.Outcome(click, next=None if day else second_day)

    def truth(self, visit: Visit) -> zoosim.Truth:
        """Return the clicks that each article brings from here on, if the best follows."""
        clicks = CLICKS[visit.kind] * LEFT[visit.before]
        if not visit.before:
            clicks = clicks + LEFT[1:] * CLICKS[visit.kind].max()
        return zoosim.truth_of_candidates(clicks)

    def all_products(self) -> zoosim.ProductList:
        """Return both articles, so that runs can write logs."""
        return zoosim.ProductList(np.arange(2), np.eye(2), ("teaser", "report"))

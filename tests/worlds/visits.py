"""Visits of whom a test wants, to a world that is a table."""

import numpy as np

from zoosim.worlds.table import TableVisit, TableWorld


def visit_by(world: TableWorld, visitor: int, step: int) -> TableVisit:
    """Return visit number `step` as if the user of row `visitor` came."""
    visits = world.visits(step, step + 1)
    here = np.array([visitor])
    return TableVisit(visits._replace(visitors=here, user_ids=here), world.offered(step), 0)

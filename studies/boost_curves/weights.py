"""The table of what learners boost for whom, beside the best boosts of each segment."""

from collections.abc import Sequence

import numpy as np

from studies.boost_curves.baselines import OPTIMUM
from studies.boost_curves.learners import LEARNERS
from studies.boost_curves.records import SegmentBoosts
from studies.rows import rows_where
from zoosim.core.search_names import FEATURES
from zoosim.report.sections import PageTable


def boosts_table(rows: Sequence[SegmentBoosts], behaviour: str, suffix: str) -> PageTable:
    """Return the mean boosts over seeds, a row for each segment and learner."""
    here = rows_where(rows, behaviour=behaviour)
    segments = dict.fromkeys(row.segment for row in here)
    measured = {row.policy for row in here}
    policies = [name for name in (OPTIMUM, *LEARNERS) if name in measured]
    cells = []
    for segment in segments:
        for policy in policies:
            found = rows_where(here, segment=segment, policy=policy)
            means = [np.mean([row.boosts[feature] for row in found]) for feature in FEATURES]
            cells.append((segment, policy, *(f"{mean:+.2f}" for mean in means)))
    caption = (
        "Mean boosts by feature over seeds, from -.5 to .5: of the optimum, and of what learners recommend after the "
        "last visit."
    )
    return PageTable(f"What is boosted for whom{suffix}", ("segment", "", *FEATURES), cells, n_text=2, caption=caption)

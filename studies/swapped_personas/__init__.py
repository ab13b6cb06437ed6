"""Tastes that drift all the time while personas change places, with five personas and seven categories.

Who keeps up when nothing stays as it is, and what does the same policy reach where all of it stands still?
"""

from functools import partial

from studies.reached import OF_ORACLE, ReachedStudy
from studies.small_shops import swapped_world

STUDY = ReachedStudy(
    worlds={"drift and swaps": partial(swapped_world), "standing still": partial(swapped_world, drifts=False)},
    policies=("adaptive", "d-linucb", "shared-linucb", "shared-lin-ts", "product-linucb", "linucb", "neural-linear"),
    checkpoints=(40_000,),
    measured=OF_ORACLE,
)
measure, build_page = STUDY.measure, STUDY.build_page

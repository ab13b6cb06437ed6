"""Products that differ by what their features do not tell, where only the category is told.

Who learns what is a product's own, at usual and at low click rates, and among 1,000 products?
"""

from functools import partial

from studies.reached import OF_ORACLE, ReachedStudy
from studies.small_shops import Effects, effects_world

WORLDS = {
    "own effects": Effects(),
    "none": Effects(own=0.0),
    "few clicks": Effects(base=-3.5),
    "1,000 products": Effects(products=1_000, categories=20, base=-2.5),
}
STUDY = ReachedStudy(
    worlds={name: partial(effects_world, effects) for name, effects in WORLDS.items()},
    policies=("adaptive", "linucb", "product-linucb", "product-lin-ts", "shared-linucb", "d-linucb"),
    checkpoints=(20_000,),
    measured=OF_ORACLE,
)
measure, build_page = STUDY.measure, STUDY.build_page

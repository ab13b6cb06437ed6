"""What policies make of rewards that are no clicks: revenue that is mostly zero, margin, losses, other scales.

Who learns from rewards of any kind and size, and does the same when they are counted in cents?
"""

from dataclasses import replace
from functools import partial

from studies.reached import OF_THE_WAY, ReachedStudy
from studies.small_shops import Payment, payment_world

REVENUE = Payment(chance=0.03, size=20.0)
SCALES = {
    "revenue x 1,024": replace(REVENUE, scale=1_024.0),
    "revenue / 1,024": replace(REVENUE, scale=1 / 1_024),
    "revenue x 1,000": replace(REVENUE, scale=1_000.0),
    "revenue / 1,000": replace(REVENUE, scale=1 / 1_000),
}
PAYMENTS = {
    "clicks": Payment(chance=0.2, spread=0.0),
    "revenue": REVENUE,
    "margin": Payment(chance=0.05, size=3.0, loss_chance=0.1, loss=1.0),
    "costs": Payment(chance=0.3, scale=-1.0),
    "revenue less 10 a visit": replace(REVENUE, shift=-10.0),
    **SCALES,
}
STUDY = ReachedStudy(
    worlds={name: partial(payment_world, payment) for name, payment in PAYMENTS.items()},
    policies=("adaptive", "linucb", "d-linucb", "greedy"),
    checkpoints=(8_000, 20_000, 40_000),
    measured=OF_THE_WAY,
    seeds="1000:1030",
    twins=dict.fromkeys(SCALES, "revenue"),
)
measure, build_page = STUDY.measure, STUDY.build_page

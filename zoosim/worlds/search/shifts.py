"""Market shifts to try learners on: one that a shop feels at once, and one that it does not."""

from zoosim.core.market_shift import MarketShift, Tastes

SAVING = MarketShift(
    step=10_000,
    name="premium shoppers save",
    segment_mix={"price_hunter": 0.45},
    tastes={"premium": Tastes(price=-2.0, label=4.0)},
)
"""What served premium visitors best, dear goods, earns them a third as much; private labels are best for them now."""

TRADING_UP = MarketShift(
    step=20_000,
    name="litter buyers trade up",
    tastes={"litter_heavy": Tastes(price=2.2, label=-3.0)},
)
"""What was best, private labels, earns more than before; what nobody showed them any more, dear goods, much more."""

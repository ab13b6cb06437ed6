"""The market shifts of built-in experiments: one lowers rewards at once, the other makes another choice better."""

from zoosim.core.market_shift import MarketShift, Tastes

SAVING = MarketShift(
    step=10_000,
    name="premium shoppers save",
    segment_mix={"price_hunter": 0.45},
    tastes={"premium": Tastes(price=-2.0, label=4.0)},
)
"""Expensive products, best for premium visitors before, earn a third as much; private labels are best now."""

TRADING_UP = MarketShift(
    step=20_000,
    name="litter buyers trade up",
    tastes={"litter_heavy": Tastes(price=2.2, label=-3.0)},
)
"""Private labels, best before, earn more than they did; expensive products, no longer shown, much more."""

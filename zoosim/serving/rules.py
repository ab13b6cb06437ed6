"""Rules of a service that its log keeps: how feedback becomes the reward of a decision, and what may be shown."""

import statistics
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from zoosim.core.config import Strict
from zoosim.monitoring.launch_plan import WAIT
from zoosim.serving.shop_rules.settings import ShopRules, read_shop_rules

AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "earliest": lambda values: values[0],
    "latest": lambda values: values[-1],
    "sum": sum,
    "average": lambda values: sum(values) / len(values),
    "median": statistics.median,
    "min": min,
    "max": max,
}

Reward = Annotated[float, Field(ge=-1e9, le=1e9)]


class Rules(Strict):
    """Rules by which a service explores, learns and shows; changes are rows of its log, so all can be computed anew.

    Args:
        wait: Seconds after a decision in which its feedback counts. What comes later is logged, and not learned.
        default_reward: What a decision earned of which no feedback came in time.
        aggregation: What several feedbacks of a decision come to. With "earliest" the first is learned at once, with
            the others the decision is learned when its wait is over.
        lowest, highest: The range of rewards. Feedback beyond it is refused; a sum of several is cut to it. Policies
            that learn from rewards in another range get them stretched to theirs.
        per_visitor: How many decisions of a visitor are learned for sure, those of earlier days counted half as much
            with each day. Further ones are learned as far as many visitors make as many, and else logged alone, so
            that nobody moves the policy alone; 0 learns all.
        exploration: The share of decisions that is spread evenly over all candidates, so that the log can judge other
            policies.
        frozen: Whether nothing is learned for now, of any arm: what is decided meanwhile is logged alone.
        mode: "online": the policy decides and learns; "apprentice": the first candidate is shown and the policy learns
            what it earns; "logging-only": the first candidate is shown and nothing is learned.
        shop_rules: What may be shown to whom, however good it seems, and what always is.
    """

    wait: Annotated[float, Field(ge=0.1, le=172_800)] = WAIT
    default_reward: Reward = 0.0
    aggregation: Literal["earliest", "latest", "sum", "average", "median", "min", "max"] = "earliest"
    lowest: Reward = 0.0
    highest: Reward = 1.0
    per_visitor: Annotated[int, Field(ge=0, le=1_000)] = 3
    exploration: Annotated[float, Field(ge=0, le=1)] = 0.05
    frozen: bool = False
    mode: Literal["online", "apprentice", "logging-only"] = "online"
    shop_rules: ShopRules = ShopRules()

    @field_validator("shop_rules", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return read_shop_rules(value)

    @model_validator(mode="after")
    def _is_a_range(self) -> "Rules":
        if not self.lowest < self.highest:
            raise ValueError(f"got rewards from {self.lowest:g} to {self.highest:g}, expected lowest below highest")
        if not self.lowest <= self.default_reward <= self.highest:
            raise ValueError(
                f"default_reward: got {self.default_reward:g}, expected {self.lowest:g} to {self.highest:g}"
            )
        return self

    def aggregate(self, values: Sequence[float]) -> float:
        """Return what feedbacks, in the order in which they count, come to; within the range of rewards."""
        return min(max(self.combine(values), self.lowest), self.highest)

    def combine(self, values: Sequence[float]) -> float:
        """Return what values of feedbacks come to, whatever the range of rewards."""
        return float(AGGREGATIONS[self.aggregation](values))

    def stretched(self, reward: float, lowest: float, highest: float) -> float:
        """Return a reward in the range that a policy learns from; unchanged where that one holds this one."""
        if lowest <= self.lowest and self.highest <= highest:
            return reward
        share = (reward - self.lowest) / (self.highest - self.lowest)
        return min(max(lowest + share * (highest - lowest), lowest), highest)

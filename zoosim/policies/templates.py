"""Static templates: show every visitor of a search shop the ranking of one template."""

from collections.abc import Mapping
from typing import Any, ClassVar

from zoosim.core.types import Context
from zoosim.policies.base import Policy


class _Template(Policy):
    """Choose the action `number`; where it cannot be chosen, the first that can."""

    number: ClassVar[int]
    chooses = ("templates",)

    def select_action(self, context: Context) -> int:
        """Return the template's number."""
        available = context.available
        if self.number < len(available) and available[self.number]:
            return self.number
        return int(available.argmax())

    def update(self, context: Context, action: int, reward: float, feedback: Mapping[str, Any] | None = None) -> None:
        """Learn nothing."""


class Neutral(_Template):
    """The base ranker's own ranking."""

    name = "template-neutral"
    number = 0


class CM2(_Template):
    """Boost products with a margin above EUR .40."""

    name = "template-cm2"
    number = 1


class PrivateLabel(_Template):
    """Boost private labels."""

    name = "template-private-label"
    number = 2


class Popularity(_Template):
    """Boost by the logarithm of the bestseller score."""

    name = "template-popularity"
    number = 3


class Premium(_Template):
    """Boost the dearest quarter of the catalogue."""

    name = "template-premium"
    number = 4


class Budget(_Template):
    """Boost the cheapest quarter of the catalogue."""

    name = "template-budget"
    number = 5


class Discount(_Template):
    """Boost by discount, in full from 30% on."""

    name = "template-discount"
    number = 6


class Strategic(_Template):
    """Boost strategic goods."""

    name = "template-strategic"
    number = 7

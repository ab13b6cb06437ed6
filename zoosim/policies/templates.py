"""Static templates: show every visitor of a search shop the ranking of one template."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoosim.core.parameters import parameter
from zoosim.core.types import Context
from zoosim.policies.base import Policy
from zoosim.ranking.templates import TEMPLATES


class StaticTemplate(Policy):
    """Show every visitor of a search shop the ranking of one template; where it cannot be, the first that can."""

    name = "template"
    chooses = ("templates",)
    learns = False
    template: str = parameter("neutral", choices=TEMPLATES, help="which template")

    def select_action(self, context: Context) -> int:
        """Return where the template stands among the candidates, whose ids are the numbers of templates."""
        own = context.available & (np.asarray(context.product_ids) == TEMPLATES.index(self.template))
        return int(np.argmax(own if own.any() else context.available))

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn nothing."""

"""Static templates: show every visitor of a search shop the ranking of one template."""

from typing import Any

import numpy as np

from zoosim.core.parameters import parameter
from zoosim.core.search_config import TEMPLATES
from zoosim.core.types import Context
from zoosim.policies.base import Policy


class StaticTemplate(Policy):
    """Show every visitor of a search shop the ranking of one template; else that of the lowest number."""

    name = "template"
    chooses = ("templates",)
    learns = False
    template: str = parameter("neutral", choices=TEMPLATES, help="which template")

    def select_action(self, context: Context) -> int:
        """Return where the template stands among the candidates, whose ids are the numbers of templates."""
        numbers = np.asarray(context.product_ids)
        wanted = context.available & (numbers == TEMPLATES.index(self.template))
        if wanted.any():
            return int(np.argmax(wanted))
        return int(np.where(context.available, numbers, np.iinfo(np.int64).max).argmin())

    def update(self, *visit: Any, **more: Any) -> None:
        """Learn nothing."""

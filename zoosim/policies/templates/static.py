"""Static templates: show every visitor of a search shop the ranking of one template."""

from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.parameters import parameter, unknown
from zoosim.core.search_names import LIBRARY_NAMES, SHOP, TEMPLATES
from zoosim.core.types import Context, PolicySpec
from zoosim.policies.base import Policy


class StaticTemplate(Policy):
    """Show every visitor of a search shop the ranking of one template; else that of the lowest number."""

    name = "template"
    chooses = ("templates",)
    learns = False
    template: str = parameter("neutral", help="name of the template")
    library: str = parameter(SHOP, choices=(SHOP, *LIBRARY_NAMES), help="whose template; in simulated shops")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Find the template among those of the task, which are the eight built-in ones where the task names none.

        Args:
            spec: The task.
            rng: Unused.
            params: The parameters.

        Raises:
            ConfigError: there is no such template.
        """
        super().__init__(spec, rng, **params)
        names = spec.templates or TEMPLATES
        if self.template not in names:
            raise ConfigError(unknown("template: unknown template", self.template, list(names)))
        self._number = names.index(self.template)

    def select_action(self, context: Context) -> int:
        """Return where the template stands among the candidates, whose ids are the numbers of templates."""
        numbers = np.asarray(context.product_ids)
        wanted = context.available & (numbers == self._number)
        if wanted.any():
            return int(np.argmax(wanted))
        return int(np.where(context.available, numbers, np.iinfo(np.int64).max).argmin())

    def update(self, *visit: Any, **more: Any) -> None:
        """Learn nothing."""

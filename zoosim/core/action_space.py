"""The words for what one decision chooses, by which worlds, logs and policies name their action space.

What depends on an action space stands in its object; see `zoosim.action_spaces`.
"""

from typing import Final

PRODUCTS: Final = "products"
TEMPLATES: Final = "templates"
RANKINGS: Final = "rankings"
BOOSTS: Final = "boosts"

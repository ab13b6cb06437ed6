"""Pages of products: drawn by an arm from the candidates of its task, and how likely an arm is to show a page at all.

Where an arm retrieves its candidates, the top of a page is drawn from them, or, in a share of the decisions that is
settled before, from all products. What stands below it comes from the retrieved candidates either way, so that only the
top has two ways to come about.
"""

from collections.abc import Sequence
from typing import NamedTuple

from zoosim.core.types import CATALOGUE, POOL
from zoosim.policies.base import Policy
from zoosim.schema.values import product_key
from zoosim.serving.candidate_sources import Pool
from zoosim.serving.endpoints.product_tasks import ArmTask
from zoosim.serving.events import Source
from zoosim.serving.ranker import Drawn, Units, chances_of, draw


class Asked(NamedTuple):
    """Who decides, None for the shop itself, and the share of draws that is spread evenly."""

    policy: Policy | None
    exploration: float


class DrawnPage(NamedTuple):
    """A page that was drawn: from which task, and how likely it was.

    Attributes:
        task: The task, whose candidates the places of `drawn` are among.
        drawn: What was drawn, with probabilities given the candidates.
        marginals: The probability of each product given those above it, wherever its candidates may have come from.
        pool: What the top might have been drawn from instead of retrieved candidates; None where none were.
        is_from_pool: Whether it was.
    """

    task: ArmTask
    drawn: Drawn
    marginals: list[float]
    pool: Pool | None = None
    is_from_pool: bool = False

    @property
    def products(self) -> list[str]:
        """Names of the products, from the top."""
        return [self.task.offer.candidates.names[place] for place in self.drawn.shown]

    def source(self, weight: float) -> Source:
        """Return the source of the candidates.

        Args:
            weight: How likely the arm was to decide.
        """
        pool = self.pool
        if pool is None or self.task.offer.retrieved is None:
            return Source(CATALOGUE, "", weight, self._n_open)
        retrieval = self.task.offer.retrieved.retrieval
        if self.is_from_pool:
            return Source(POOL, retrieval.version, weight * pool.share / pool.size, pool.size)
        n_products = self._n_open if self.task.slots[0].explores else pool.size
        return Source(retrieval.name, retrieval.version, weight * (1.0 - pool.share), n_products)

    @property
    def _n_open(self) -> int:
        """Number of candidates that could have stood at the top."""
        return len(self.task.offer.candidates.names) - len(self.drawn.excluded)


def draw_page(task: ArmTask, asked: Asked, units: Units) -> DrawnPage:
    """Draw what an arm shows; raises as `draw`."""
    pool = task.pool
    if pool is None or pool.share == 0.0:
        drawn = _drawn(task, asked, units, units(0))
        return DrawnPage(task, drawn, drawn.chances, pool)
    # One number settles both: either part of [0, 1), below the share of the pool and above, is stretched to the whole.
    unit = units(0)
    if unit >= pool.share:
        drawn = _drawn(task, asked, units, (unit - pool.share) / (1.0 - pool.share))
        top = _mixed(task, task.offer.candidates.names[drawn.shown[0]], drawn.chances[0])
        return DrawnPage(task, drawn, [top, *drawn.chances[1:]], pool)
    product = task.arm.catalogue.name_by_id(pool.product(unit / pool.share))
    led = task.led_by(product)
    drawn = _drawn(led, asked, units, 0.0)
    top = _overall_top_chance(task, product, asked)
    return DrawnPage(led, drawn, [top, *drawn.chances[1:]], pool, is_from_pool=True)


def page_chances(task: ArmTask, products: Sequence[str], asked: Asked) -> list[float]:
    """Return how likely an arm is to show these products, each given those above it; 0 from the first it never shows.

    Raises:
        PolicyError: as `draw`.
    """
    if task.pool is None:
        return _chances(task, products, asked)
    top = _overall_top_chance(task, products[0], asked)
    if top == 0.0 or len(products) == 1 or len(task.slots) == 1:
        return [top] + [0.0] * (len(products) - 1)
    return [top, *_chances(task.led_by(products[0]), products, asked)[1:]]


def _drawn(task: ArmTask, asked: Asked, units: Units, top: float) -> Drawn:
    def unit(slot: int) -> float:
        return units(slot) if slot else top

    return draw(asked.policy, task.slots, task.offer.candidates, asked.exploration, unit, task.caps)


def _chances(task: ArmTask, products: Sequence[str], asked: Asked) -> list[float]:
    """Return how likely products are to be drawn from the candidates of a task, each given those above it."""
    names = task.offer.candidates.names
    places = [names.index(product) if product in names else -1 for product in products]
    return chances_of(places, asked.policy, task.slots, task.offer.candidates, asked.exploration, task.caps)


def _overall_top_chance(task: ArmTask, product: str, asked: Asked) -> float:
    """Return the probability that a product stands at the top, wherever its candidates may have come from."""
    (chance,) = _chances(task, [product], asked)
    return _mixed(task, product, chance)


def _mixed(task: ArmTask, product: str, chance: float) -> float:
    """Return the probability of a product at the top, from that given the retrieved candidates and that of the pool."""
    assert task.pool is not None
    return task.pool.chance_of(product_key(product)) + (1.0 - task.pool.share) * chance

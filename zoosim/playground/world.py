"""A small shop with a known truth: visitors of a few countries, products that please each of them more or less."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from zoosim.api.models import train
from zoosim.api.shops import import_log
from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray, IntArray
from zoosim.playground.visitors import Visitors

COUNTRIES = ("de", "fr", "it")
PRODUCTS = ("scarf", "lamp", "teapot", "chess")

DELAY = 60.0
"""Mean seconds from a decision to its click, and a tenth of the longest."""

TAUGHT_BY = 1_200
"""Rows of the log from which a model is trained."""

SCHEMA = """\
columns: {action: item, propensity: propensity}
rewards: {click: click}
features: {country: category}
products: {table: products.csv, id: item, features: {item: category}}
"""

Picks = Sequence[int]
"""The place of a product for each country."""


@dataclass(frozen=True)
class SmallShop:
    """Visitors and what pleases them.

    Attributes:
        visitors: When they come, how much they click, and their luck.
        country: The place of each one's country `(n,)`.
        delay: Seconds from a decision to the click `(n,)`.
        appeal: By how much more than usual visitors of a country click on a product `(C, P)`.
    """

    visitors: Visitors
    country: IntArray
    delay: FloatArray
    appeal: FloatArray

    def columns(self, number: int) -> dict[str, str]:
        """Return what a request says of a visitor."""
        return {"country": COUNTRIES[self.country[number]]}

    def click_rates(self, number: int) -> FloatArray:
        """Return the chance that a visitor clicks, by product `(P,)`."""
        return np.asarray(np.minimum(self.visitors.rate[number] * self.appeal[self.country[number]], 1.0))

    def clicks(self, number: int, product: str) -> bool:
        """Return whether a visitor clicks on a product: the same one always alike."""
        return bool(self.visitors.luck[number] < self.click_rates(number)[PRODUCTS.index(product)])

    def shocked(self) -> "SmallShop":
        """Return the shop after all countries changed their minds: each now likes what the next one liked."""
        return replace(self, appeal=np.roll(self.appeal, 1, axis=0))


def small_shop(visitors: Visitors, appeal: FloatArray, seed: int) -> SmallShop:
    """Return a shop with these visitors, whose countries and delays are drawn.

    Args:
        visitors: When they come, how much they click, and their luck.
        appeal: By how much more than usual visitors of a country click on a product `(C, P)`.
        seed: That of countries and delays.
    """
    rng = np.random.default_rng((seed, 1))
    count = len(visitors.hour)
    delay = np.minimum(rng.exponential(DELAY, count), 10.0 * DELAY)
    return SmallShop(visitors, rng.integers(len(COUNTRIES), size=count), delay, appeal)


def rival_picks() -> tuple[Picks, Picks]:
    """Return what the champion and the challenger show to each country: two products apart."""
    places = np.arange(len(COUNTRIES))
    return (places % len(PRODUCTS)).tolist(), ((places + 2) % len(PRODUCTS)).tolist()


def appeal_of(effect: float, exploration: float) -> FloatArray:
    """Return an appeal by which a challenger earns exactly so much more than the champion, which earns 1.

    Args:
        effect: By what part more the challenger earns, both with the exploration of a service.
        exploration: The share of decisions that is spread evenly over all products.

    Raises:
        ConfigError: the exploration alone earns more than the challenger would.
    """
    own, other = rival_picks()
    # What each earns is (1 - x) times its pick, and x times the mean of all; the other products lie between the two.
    between = 1.0 + effect / 2.0
    even = exploration / len(PRODUCTS)
    weights = (1.0 - exploration) * np.eye(2) + even
    earned = np.array([1.0, 1.0 + effect]) - even * between * (len(PRODUCTS) - 2)
    appeal = np.full((len(COUNTRIES), len(PRODUCTS)), between)
    solution = np.linalg.solve(weights, earned)
    if solution.min() < 0.0:
        raise ConfigError(f"effect: got {effect:g} with an exploration of {exploration:g}, expected one nearer to 0")
    for picks, value in zip((own, other), solution, strict=True):
        appeal[np.arange(len(COUNTRIES)), picks] = value
    return appeal


def liking(picks: Picks) -> FloatArray:
    """Return click rates `(C, P)` of countries that like one product each, by its place, and no other."""
    rates = np.zeros((len(COUNTRIES), len(PRODUCTS)))
    rates[np.arange(len(COUNTRIES)), picks] = 1.0
    return rates


def teach(rates: FloatArray, path: Path, policy: str = "linear", seed: int = 0) -> Path:
    """Train a model on a log of visitors who were shown products at random, and return its file.

    Args:
        rates: The chance of a click, by country and product `(C, P)`.
        path: The file, which ends in `.zoosim`.
        policy: The policy; "linear" shows the product that was liked best for ever, as it learns from logs alone.
        seed: That of the visitors.
    """
    rng = np.random.default_rng((seed, 2))
    country = rng.integers(len(COUNTRIES), size=TAUGHT_BY)
    shown = rng.integers(len(PRODUCTS), size=TAUGHT_BY)
    table = pl.DataFrame(
        {
            "item": np.array(PRODUCTS)[shown],
            "propensity": np.full(TAUGHT_BY, 1.0 / len(PRODUCTS)),
            "click": (rng.random(TAUGHT_BY) < rates[country, shown]).astype(int),
            "country": np.array(COUNTRIES)[country],
        }
    )
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.parquet"
        schema = Path(folder) / "schema.yaml"
        schema.write_text(SCHEMA)
        pl.DataFrame({"item": PRODUCTS}).write_csv(Path(folder) / "products.csv")
        import_log(table, schema, log)
        train(log, [policy], path)
    return path

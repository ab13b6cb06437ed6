"""A search shop and its visits in the plain words of `benchmarks.plain.search`, with the same draws."""

from functools import cache

import numpy as np

from benchmarks.plain import search as plain
from zoosim.core.normals import fill_normals
from zoosim.core.rng import normal, uniform
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.world import SearchWorld


@cache
def plain_products(world: SearchWorld) -> list[plain.Product]:
    """Return the catalogue, product by product."""
    c, kinds = world.catalogue, list(world.config.categories.items())
    return [
        plain.Product(
            category=kinds[c.category[p]][0],
            price=float(c.price[p]),
            cm2=float(c.cm2[p]),
            discount=float(c.discount[p]),
            private_label=bool(c.label[p]),
            bestseller=float(c.bestseller[p]),
            strategic=bool(c.strategic[p]),
            embedding=tuple(c.embeddings[:, p].tolist()),
            words=frozenset(kinds[c.category[p]][1].words),
        )
        for p in range(len(c.ids))
    ]


def plain_user(world: SearchWorld, visit: SearchVisit) -> plain.User:
    """Return who comes."""
    u, names = world.users, list(world.config.categories)
    return plain.User(
        price_taste=float(u.price_taste[visit.user]),
        label_taste=float(u.label_taste[visit.user]),
        category_tastes=dict(zip(names, u.category_tastes[visit.user].tolist(), strict=True)),
        embedding=tuple(u.embeddings[visit.user].tolist()),
    )


def plain_query(world: SearchWorld, visit: SearchVisit) -> plain.Query:
    """Return what is typed: the category's words, the type, random tokens."""
    name, kind = list(world.config.query_types.items())[visit.query_type]
    words = list(world.config.categories.values())[visit.intent].words
    tokens = frozenset([*words, name, *(f"token {token}" for token in visit.tokens)])
    return plain.Query(name, kind.specificity, tokens, tuple(visit.query.tolist()))


def relevance_noise(world: SearchWorld, step: int) -> list[float]:
    """Return the draw of each product at a visit."""
    out = np.empty(len(world.catalogue.ids))
    fill_normals(world.keys["relevance"], step, out)
    return out.tolist()


def plain_visit(shop: SearchShop, visit: SearchVisit, shown: list[int]) -> list[plain.Step]:
    """Let the plain visitor go through a ranking, with the shop's draws."""
    keys, t, products = shop.world.keys, visit.step, range(len(visit.base))
    draws = [[uniform(keys[name], t, p) for p in products] for name in ("examination", "clicks", "purchases")]
    utility = [normal(keys["utility"], t, p) for p in products]
    who = plain_user(shop.world, visit), plain_query(shop.world, visit)
    return plain.visit(plain_products(shop.world), shown, *who, utility, *draws)

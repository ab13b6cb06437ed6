"""The likelihood of the clicks and purchases of searches, and its gradient for each search.

Visitors look from the top and leave sooner or later: a cascade (Craswell et al. 2008) with abandonment that depends on
the position, the type of the query and the satisfaction so far (Chapelle & Zhang 2009, whose satisfaction is a click's
own). What nobody reports is summed out: which positions below the last click were examined, by a recursion from the
bottom; the noise of utilities, and how much visitors of a segment differ in their taste for price, by Gauss-Hermite
quadrature. One thing is approximate: satisfaction follows from the utility that a click or purchase lets expect, with
its variance, not from the utility itself.
"""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.search_config import Behaviour
from zoosim.core.types import FloatArray
from zoosim.fitting.search_design import SearchDesign
from zoosim.fitting.search_parameters import Predictors

NODES = 5
VISITOR_NODES = 3
"""Points of the quadrature over utilities, and over visitors' tastes for price."""

LEAST_SD = 0.02
LEAST_CHANCE = 1e-4
"""The least deviation of satisfaction, and the least chance of staying: a click below has happened all the same."""

CHUNK = 2_000
"""Searches whose likelihoods are computed together: so many stay in the processor's cache."""


class Observed(NamedTuple):
    """What came of n searches, as tensors `(n, L)`: `shown`, `clicks` and `purchases`, 0 or 1, and `log_price`."""

    shown: Any
    clicks: Any
    purchases: Any
    log_price: Any


def observed(design: SearchDesign) -> Observed:
    """Return what came of the searches of a design."""
    import torch

    parts = (getattr(design, name) for name in Observed._fields)
    return Observed(*(torch.as_tensor(np.ascontiguousarray(part)) for part in parts))


def log_likelihoods(predictors: Predictors, seen: Observed) -> FloatArray:
    """Return the log likelihood of each search `(n,)`."""
    import torch

    with torch.no_grad():
        parts = [_log_likelihoods(*part) for part in _chunks(predictors, seen)]
    return np.asarray(torch.cat(parts))


def gradients(predictors: Predictors, seen: Observed) -> tuple[FloatArray, Predictors]:
    """Return the log likelihood of each search `(n,)`, and its derivative by each of the search's predictors."""
    values = []
    slopes = []
    for chunk, part in _chunks(predictors, seen):
        leaves = Predictors(*(tensor.requires_grad_() for tensor in chunk))
        likelihoods = _log_likelihoods(leaves, part)
        likelihoods.sum().backward()
        values.append(np.asarray(likelihoods.detach()))
        slopes.append([np.asarray(leaf.grad) for leaf in leaves])
    return np.concatenate(values), Predictors(*(np.concatenate(column) for column in zip(*slopes, strict=True)))


def _chunks(predictors: Predictors, seen: Observed) -> Any:
    import torch

    for start in range(0, len(seen.shown), CHUNK):
        part = slice(start, start + CHUNK)
        chunk = Predictors(*(torch.as_tensor(np.ascontiguousarray(values[part])) for values in predictors))
        yield chunk, Observed(*(values[part] for values in seen))


def _log_likelihoods(predictors: Predictors, seen: Observed) -> Any:
    import torch

    points, weights = np.polynomial.hermite_e.hermegauss(VISITOR_NODES)
    taste = predictors.price_sd[:, None] * seen.log_price
    by_visitor = [
        _log_likelihoods_of(predictors._replace(utility=predictors.utility + point * taste), seen) for point in points
    ]
    shares = torch.as_tensor(np.log(weights / weights.sum()))
    return torch.logsumexp(torch.stack(by_visitor, dim=1) + shares, dim=1)


def _log_likelihoods_of(predictors: Predictors, seen: Observed) -> Any:
    """Return the same where the effect of price is known for each search."""
    import torch

    usual = Behaviour()
    clicks, purchases = seen.clicks, seen.purchases
    reactions = _reactions(predictors, seen, usual)
    sum_before = torch.cumsum(reactions.change, dim=1) - reactions.change
    sd_before = torch.sqrt((torch.cumsum(reactions.doubt, dim=1) - reactions.doubt).clamp(min=LEAST_SD**2))
    # Half a skip is added, so that rounding does not decide whether a visitor who never clicked is still there.
    margin = sum_before - usual.leave_below - 0.5 * usual.skip_satisfaction
    stays = torch.special.ndtr(margin / sd_before).clamp(min=LEAST_CHANCE)
    bought_before = torch.cumsum(purchases, dim=1) - purchases
    stays = torch.where(bought_before < usual.max_purchases, stays, torch.full_like(stays, LEAST_CHANCE))
    look = torch.sigmoid(predictors.look + predictors.examine_satisfaction[:, None] * sum_before)
    examine = seen.shown * stays * look

    # From the bottom up: the chance of all that is seen from a position on, given that its visitor came to it.
    is_above_click = torch.flip(torch.cummax(torch.flip(clicks, [1]), dim=1).values, [1]) > 0
    rest = torch.ones_like(examine[:, 0])
    for n in range(clicks.shape[1] - 1, -1, -1):
        on = examine[:, n] * reactions.chance[:, n] * rest
        rest = torch.where(is_above_click[:, n], on, 1.0 - examine[:, n] + on)
    return torch.log(rest)


class _Reactions(NamedTuple):
    """What examined products bring about, each `(n, L)`.

    `chance` of the click, purchase or skip that is seen; the expected `change` of satisfaction, and its variance
    (`doubt`).
    """

    chance: Any
    change: Any
    doubt: Any


def _reactions(predictors: Predictors, seen: Observed, usual: Behaviour) -> _Reactions:
    """Sum out the noise of utilities."""
    import torch

    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    noise = torch.as_tensor(usual.utility_sd * points)
    weight = torch.as_tensor(weights / weights.sum())
    mean = predictors.utility
    no_click = (torch.sigmoid(-(mean[:, :, None] + noise)) * weight).sum(dim=2)

    is_click = seen.clicks > 0
    utility = mean[is_click][:, None] + noise
    slope = predictors.purchase_slope[:, None].expand_as(mean)[is_click][:, None]
    odds = slope * utility + predictors.purchase[is_click][:, None]
    sign = 2.0 * seen.purchases[is_click][:, None] - 1.0
    joint = torch.sigmoid(utility) * torch.sigmoid(sign * odds) * weight
    chance = joint.sum(dim=1)
    expected = (joint * utility).sum(dim=1) / chance
    variance = ((joint * utility**2).sum(dim=1) / chance - expected**2).clamp(min=0.0)
    gain = usual.click_satisfaction * expected + usual.purchase_satisfaction * seen.purchases[is_click]
    return _Reactions(
        chance=no_click.masked_scatter(is_click, chance),
        change=torch.full_like(mean, usual.skip_satisfaction).masked_scatter(is_click, gain),
        doubt=torch.zeros_like(mean).masked_scatter(is_click, usual.click_satisfaction**2 * variance),
    )

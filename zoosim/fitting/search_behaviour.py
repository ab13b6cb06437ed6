"""Estimate from a log of rankings how visitors examine, click and buy: by maximum likelihood, with priors.

Visitors look from the top and leave sooner or later: a cascade (Craswell et al. 2008) with abandonment that depends on
the position, the type of the query and the satisfaction so far (Chapelle & Zhang 2009, whose satisfaction is a click's
own). What nobody reports is summed out: which positions below the last click were examined, by a recursion from the
bottom; the noise of utilities, and how much visitors of a segment differ in their taste for price, by Gauss-Hermite
quadrature. Expectation and maximisation (Dempster, Laird & Rubin
1977) climbs the same likelihood more slowly. One thing is approximate: satisfaction follows from the utility that a
click or purchase lets expect, with its variance, not from the utility itself.

Not identified, and left as in `Behaviour`: the noise of utilities, what a click, a purchase and a skip do to
satisfaction, and the weights of price and private label, whose products with the segments' tastes are estimated.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from zoosim.core.search_config import Behaviour
from zoosim.core.types import FloatArray, Progress
from zoosim.fitting.search_design import SearchDesign
from zoosim.models.torch_training import seeded_torch

NODES = 7
VISITOR_NODES = 3
"""Points of the quadrature over utilities, and over visitors' tastes for price."""

MOST_POSITIONS = 10
"""Positions with an examination of their own, for each type of query; those beyond share the last."""

INFORMATIVE = 0.995
"""The share of the clicks that the positions have which are looked at."""

STEP_SD = 0.5
"""How much the examination of a position differs from the one above, before anything is known, in log odds."""

PRIOR_SD = 3.0
"""How far the other parameters may be from the defaults of a search world."""

USUAL_SD = 0.1
"""How much visitors differ in the effect of price, before anything is known: 0 would be a place without a slope."""

LEAST_SD = 0.02
LEAST_CHANCE = 1e-4
"""The least deviation of satisfaction, and the least chance of staying: a click below has happened all the same."""

DIFFERENCE = 1e-5
"""The step of finite differences."""


class BehaviourParameters(NamedTuple):
    """What is estimated: `bias (T, P)` of examination, effects of `price (S,)` and private `label (S,)` on utility.

    Effects of price are those of log(1 + price), and differ by `price_sd` between visitors; all else are numbers,
    `score` the effect of the base score, `category` that of a taste for the product's category.
    """

    bias: Any
    price: Any
    label: Any
    price_sd: Any
    examine_satisfaction: Any
    intercept: Any
    score: Any
    category: Any
    purchase_slope: Any
    purchase_bias: Any
    purchase_price: Any


class FittedBehaviour(NamedTuple):
    """Estimates, their standard `errors`, and the mean log likelihood of a search."""

    estimates: BehaviourParameters
    errors: BehaviourParameters
    log_likelihood: float


def fit_behaviour(
    design: SearchDesign,
    n_segments: int,
    n_types: int,
    *,
    start: BehaviourParameters | None = None,
    errors: bool = True,
    progress: Progress = lambda line: None,
) -> FittedBehaviour:
    """Estimate behaviour from searches.

    Args:
        design: The searches.
        n_segments: How many segments there are.
        n_types: How many types of queries there are.
        start: Where to begin; by default the behaviour of the built-in search world.
        errors: Whether to compute standard errors, which are NaN without.
        progress: Called with a line now and then.
    """
    depth = informative_depth(design)
    shapes = _shapes(n_segments, n_types, min(MOST_POSITIONS, depth))
    if start is not None:
        places = np.minimum(np.arange(shapes["bias"][1]), start.bias.shape[1] - 1)
        start = start._replace(bias=start.bias[:, places])
    with seeded_torch(0):
        return _fit(design.head(depth), shapes, start, errors, progress)


def informative_depth(design: SearchDesign) -> int:
    """Return how many positions from the top have nearly all clicks: those below cost time and tell next to nothing.

    What happens at the first positions does not depend on those below, so leaving these out biases nothing.
    """
    clicks = np.cumsum(design.clicks.sum(axis=0))
    return int(np.searchsorted(clicks, INFORMATIVE * clicks[-1])) + 1


def _fit(
    design: SearchDesign,
    shapes: Mapping[str, tuple[int, ...]],
    start: BehaviourParameters | None,
    errors: bool,
    progress: Progress,
) -> FittedBehaviour:
    import torch

    prior = _prior(shapes)
    arrays = {name: torch.as_tensor(np.ascontiguousarray(values)) for name, values in design._asdict().items()}
    calls = 0

    def objective(values: FloatArray) -> tuple[float, FloatArray]:
        nonlocal calls
        calls += 1
        if calls % 10 == 0:
            progress(f"fitting behaviour, step {calls}")
        theta = torch.as_tensor(values).requires_grad_()
        loss = -_log_likelihoods(_unpacked(theta, shapes), arrays).sum() + _penalty(theta, prior, shapes)
        loss.backward()
        return float(loss.detach()), np.asarray(theta.grad)

    first = _packed(start) if start is not None else prior
    found = optimize.minimize(
        objective, first, jac=True, method="L-BFGS-B", options={"maxiter": 400, "maxcor": 30, "ftol": 1e-7}
    )
    with torch.no_grad():
        theta = torch.as_tensor(found.x)
        mean = float(_log_likelihoods(_unpacked(theta, shapes), arrays).mean())
        spread = _standard_errors(found.x, arrays, shapes, progress) if errors else np.full(len(found.x), np.nan)
    estimates = _unpacked(found.x, shapes)
    return FittedBehaviour(estimates._replace(price_sd=abs(estimates.price_sd)), _unpacked(spread, shapes), mean)


def _shapes(n_segments: int, n_types: int, positions: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(BehaviourParameters._fields, ())
    return {**shapes, "bias": (n_types, positions), "price": (n_segments,), "label": (n_segments,)}


def _prior(shapes: Mapping[str, tuple[int, ...]]) -> FloatArray:
    """Return where estimates are drawn to where the log says little: the built-in behaviour, without tastes."""
    usual = Behaviour()
    built_in = {name: getattr(usual, name) for name in BehaviourParameters._fields if hasattr(usual, name)}
    centres = {**built_in, "bias": 0.5, "price": 0.0, "label": 0.0, "price_sd": USUAL_SD}
    return _packed(BehaviourParameters(**{name: np.full(shape, centres[name]) for name, shape in shapes.items()}))


def _packed(parameters: BehaviourParameters) -> FloatArray:
    return np.concatenate([np.ravel(np.asarray(part, np.float64)) for part in parameters])


def _unpacked(values: Any, shapes: Mapping[str, tuple[int, ...]]) -> BehaviourParameters:
    parts = {}
    first = 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        parts[name] = values[first : first + size].reshape(shape)
        first += size
    return BehaviourParameters(**parts)


def _penalty(theta: Any, prior: FloatArray, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """Return minus the log density of the prior: biases step from one position to the next, all else is normal."""
    import torch

    away = (theta - torch.as_tensor(prior)) / PRIOR_SD
    bias = _unpacked(theta, shapes).bias
    steps = (bias[:, 1:] - bias[:, :-1]) / STEP_SD
    return 0.5 * (away**2).sum() + 0.5 * (steps**2).sum()


def _log_likelihoods(parameters: BehaviourParameters, design: Mapping[str, Any]) -> Any:
    """Return the log likelihood of the clicks and purchases of each search, `(n,)`."""
    import torch

    points, weights = np.polynomial.hermite_e.hermegauss(VISITOR_NODES)
    by_visitor = [
        _log_likelihoods_of(parameters, design, parameters.price[design["segment"]] + parameters.price_sd * point)
        for point in points
    ]
    shares = torch.as_tensor(np.log(weights / weights.sum()))
    return torch.logsumexp(torch.stack(by_visitor, dim=1) + shares, dim=1)


def _log_likelihoods_of(parameters: BehaviourParameters, design: Mapping[str, Any], price: Any) -> Any:
    """Return the same where the effect of price is known for each search, `price (n,)`."""
    import torch

    usual = Behaviour()
    clicks, purchases, shown = design["clicks"], design["purchases"], design["shown"]
    reactions = _reactions(parameters, design, price, usual)
    sum_before = torch.cumsum(reactions.change, dim=1) - reactions.change
    sd_before = torch.sqrt((torch.cumsum(reactions.doubt, dim=1) - reactions.doubt).clamp(min=LEAST_SD**2))
    # Half a skip is added, so that rounding does not decide whether a visitor who never clicked is still there.
    margin = sum_before - usual.leave_below - 0.5 * usual.skip_satisfaction
    stays = torch.special.ndtr(margin / sd_before).clamp(min=LEAST_CHANCE)
    bought_before = torch.cumsum(purchases, dim=1) - purchases
    stays = torch.where(bought_before < usual.max_purchases, stays, torch.full_like(stays, LEAST_CHANCE))
    positions = torch.arange(clicks.shape[1]).clamp(max=parameters.bias.shape[1] - 1)
    bias = parameters.bias[design["query_type"]][:, positions]
    examine = shown * stays * torch.sigmoid(bias + parameters.examine_satisfaction * sum_before)

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


def _reactions(parameters: BehaviourParameters, design: Mapping[str, Any], price: Any, usual: Behaviour) -> _Reactions:
    """Sum out the noise of utilities."""
    import torch

    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    noise = torch.as_tensor(usual.utility_sd * points)
    weight = torch.as_tensor(weights / weights.sum())
    label = parameters.label[design["segment"]][:, None] * design["label"]
    mean = parameters.intercept + parameters.score * design["score"] + parameters.category * design["taste"]
    mean = mean + price[:, None] * design["log_price"] + label
    no_click = (torch.sigmoid(-(mean[:, :, None] + noise)) * weight).sum(dim=2)

    is_click = design["clicks"] > 0
    utility = mean[is_click][:, None] + noise
    log_price = design["log_price"][is_click][:, None]
    odds = parameters.purchase_slope * utility + parameters.purchase_bias + parameters.purchase_price * log_price
    sign = 2.0 * design["purchases"][is_click][:, None] - 1.0
    joint = torch.sigmoid(utility) * torch.sigmoid(sign * odds) * weight
    chance = joint.sum(dim=1)
    expected = (joint * utility).sum(dim=1) / chance
    variance = ((joint * utility**2).sum(dim=1) / chance - expected**2).clamp(min=0.0)
    gain = usual.click_satisfaction * expected + usual.purchase_satisfaction * design["purchases"][is_click]
    return _Reactions(
        chance=no_click.masked_scatter(is_click, chance),
        change=torch.full_like(mean, usual.skip_satisfaction).masked_scatter(is_click, gain),
        doubt=torch.zeros_like(mean).masked_scatter(is_click, usual.click_satisfaction**2 * variance),
    )


def _standard_errors(
    values: FloatArray, design: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], progress: Progress
) -> FloatArray:
    """Return standard errors by the outer product of the searches' gradients (Berndt, Hall, Hall & Hausman 1974)."""
    import torch

    gradients = np.empty((len(design["segment"]), len(values)))
    at_estimates = _log_likelihoods(_unpacked(torch.as_tensor(values), shapes), design)
    for n in range(len(values)):
        if n % 5 == 0:
            progress(f"standard errors, {n} of {len(values)}")
        moved = values.copy()
        moved[n] += DIFFERENCE
        gain = _log_likelihoods(_unpacked(torch.as_tensor(moved), shapes), design) - at_estimates
        gradients[:, n] = np.asarray(gain) / DIFFERENCE
    information = gradients.T @ gradients + np.diag(np.full(len(values), PRIOR_SD**-2))
    errors: FloatArray = np.sqrt(np.diag(np.linalg.inv(information)))
    return errors

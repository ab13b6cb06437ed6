"""Effects of products and visitors on a reward, each shrunk towards what it has in common with others.

What a visitor's features x_u and a product add up to is

    a' [1, x_u, p] + x_u' C p + sum over the product's columns j of b_j' [1, x_u] + own effect of the product

with p the product's numbers and j the columns of which it is 1, such as its category and brand. Every effect has a
normal prior around 0, so what was seldom shown is judged by its columns, and these by what all have in common. The
posterior is normal, with a covariance within each of the blocks a, C, b_j and none between them: a Kalman filter that
costs what the blocks of one product cost, however many there are. For yes or no it goes by the moments of a logistic
model (Opper 1998, "A Bayesian Approach to On-line Learning", https://doi.org/10.1017/CBO9780511569920, with the
probability of MacKay 1992, "The Evidence Framework Applied to Classification Networks",
https://doi.org/10.1162/neco.1992.4.5.720). How large effects are is learned as well (MacKay 1992, "Bayesian
Interpolation", https://doi.org/10.1162/neco.1992.4.3.415). Effects may wander: after tau observations they keep 1/e of
what was learned (an Ornstein-Uhlenbeck process), reckoned when a block is next touched.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.arrays import copy_overlap
from zoosim.core.jit import jit
from zoosim.core.limits import COUNTS, NOT_NEGATIVE, covariance_flaws
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import add_product, bound_of_forms, dot, quadratic_forms

BASE, USER, NUMBER, CROSS, COLUMN, TASTE, OWN, TAU = range(8)
"""Columns of `priors (M, 8)`: variances of the constant, a visitor's features, a product's numbers, products of both,
a column, a visitor's features in it, and a product's own effect; and tau, 0 for never forgetting."""

LEARNED = (COLUMN, TASTE, OWN)
"""Kinds of effects whose prior variances are learned."""

FIRST_EFFECTS = 3.0
"""Known effects that a first variance weighs as much as."""

MOST_CHANGE = 10.0
"""By what factor a learned variance may differ from the first."""

LEAST_CHANGE = 0.1
"""By what share a variance must differ from the one in use for effects to be computed anew."""

FIRST_VISITS = 64
"""Visits after which variances are first learned."""

ROUNDING = 1e-9
"""By what share rounding may take a variance from its prior. What is nearer was not observed: how many such slots there
are depends on the room in tables, and must change nothing."""

WANDER = 0.1
"""Variance that the constant gains in the time in which effects are forgotten: it is never pulled back to 0."""

AT_ONCE = 256
"""Candidates whose numbers are gathered at once."""

MODERATION = np.pi / 8
"""Weight of a logit's variance, which draws its probability to one half (MacKay 1992)."""


class ShrunkEffects(NamedTuple):
    """The posteriors of M models over visitors [1, x_u] `(d,)`, n numbers, c of them crossed, B columns, P products.

    `priors (M, 8)` are the prior variances, some of them learned. `shared (M, d + n)`, `crossed (M, (d - 1) c)`,
    `columns (M, B, d)` and `own (M, P)` are means; `_cov` of the first three and `own_var` their covariances; `_time`
    the observation up to which each was reckoned.
    """

    priors: Annotated[FloatArray, NOT_NEGATIVE]
    shared: FloatArray
    shared_cov: FloatArray
    shared_time: Annotated[FloatArray, COUNTS]
    crossed: FloatArray
    crossed_cov: FloatArray
    columns: FloatArray
    columns_cov: FloatArray
    columns_time: Annotated[FloatArray, COUNTS]
    own: FloatArray
    own_var: Annotated[FloatArray, NOT_NEGATIVE]
    own_time: Annotated[FloatArray, COUNTS]

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        for name in ("shared_cov", "crossed_cov", "columns_cov"):
            yield from covariance_flaws(name, getattr(self, name))
        priors = (1.0 + ROUNDING) * self.priors[:, None]
        d = self.columns.shape[2]
        if (self.own_var > priors[..., OWN]).any():
            yield "own_var holds more than its prior variance"
        variances = np.diagonal(self.columns_cov, axis1=2, axis2=3)
        if (variances > priors[..., [COLUMN] + [TASTE] * (d - 1)]).any():
            yield "columns_cov holds more than its prior variances"

    def latest(self) -> float:
        """Return the latest observation up to which a block was reckoned."""
        times = self.shared_time, self.columns_time, self.own_time
        return float(max(time.max() for time in times))


class FeatureRow(NamedTuple):
    """One visitor and product: `user (d,)` with a leading 1, `numbers (n,)`, `columns (b,)` and `product`, as slots."""

    user: FloatArray
    numbers: FloatArray
    columns: IntArray
    product: int


class Gains(NamedTuple):
    """Arrays that a prediction leaves for the correction after it: covariance times features, by block."""

    shared: FloatArray
    crossed: FloatArray
    columns: FloatArray
    mean: float
    variance: float


def new_effects(priors: FloatArray, d: int, numbers: int, crossed: int, columns: int, products: int) -> ShrunkEffects:
    """Return models that have seen nothing: `priors (M, 8)`, and the dimensions of `ShrunkEffects`."""
    models = len(priors)
    size = (d - 1) * crossed
    effects = ShrunkEffects(
        priors=priors.copy(),
        shared=np.zeros((models, d + numbers)),
        shared_cov=np.zeros((models, d + numbers, d + numbers)),
        shared_time=np.zeros(models),
        crossed=np.zeros((models, size)),
        crossed_cov=np.zeros((models, size, size)),
        columns=np.zeros((models, columns, d)),
        columns_cov=np.zeros((models, columns, d, d)),
        columns_time=np.zeros((models, columns)),
        own=np.zeros((models, products)),
        own_var=np.repeat(priors[:, OWN, None], products, axis=1),
        own_time=np.zeros((models, products)),
    )
    for m, prior in enumerate(priors):
        variances = np.r_[prior[BASE], np.full(d - 1, prior[USER]), np.full(numbers, prior[NUMBER])]
        np.fill_diagonal(effects.shared_cov[m], variances)
        np.fill_diagonal(effects.crossed_cov[m], prior[CROSS])
        effects.columns_cov[m] = np.diag(np.r_[prior[COLUMN], np.full(d - 1, prior[TASTE])])
    return effects


def grown_effects(effects: ShrunkEffects, columns: int, products: int) -> ShrunkEffects:
    """Return the models with room for more columns and products, of which nothing is known."""
    d = effects.columns.shape[2]
    numbers = effects.shared.shape[1] - d
    crossed = effects.crossed.shape[1] // (d - 1) if d > 1 else 0
    larger = new_effects(effects.priors, d, numbers, crossed, columns, products)
    for old, new in zip(effects, larger, strict=True):
        copy_overlap(old, new)
    return larger


@jit
def forget_product(effects: ShrunkEffects, product: int) -> None:
    """Forget a product."""
    for m in range(effects.priors.shape[0]):
        effects.own[m, product] = 0.0
        effects.own_var[m, product] = effects.priors[m, OWN]


@jit
def kept_of(prior: FloatArray, elapsed: float) -> float:
    """Return the share of an effect that is left after so many observations."""
    return float(np.exp(-elapsed / prior[TAU])) if prior[TAU] > 0.0 else 1.0


@jit
def _fade(mean: FloatArray, cov: FloatArray, kept: float, lead: float, rest: float) -> None:
    """Draw effects towards 0 and widen them towards the prior: variance `lead` of the first, `rest` of the others."""
    for i in range(mean.shape[0]):
        mean[i] *= kept
        for j in range(mean.shape[0]):
            cov[i, j] *= kept * kept
        # kept^2 v + (1 - kept^2) prior: an effect of which nothing is known, v = prior, stays so.
        cov[i, i] += (1.0 - kept * kept) * (lead if i == 0 else rest)


@jit
def _fade_shared(mean: FloatArray, cov: FloatArray, kept: float, prior: FloatArray, d: int) -> None:
    """Fade the shared block, but let the constant wander."""
    for i in range(1, mean.shape[0]):
        mean[i] *= kept
        # The constant keeps all of itself, so its covariances shrink by one factor of `kept`, not by two.
        cov[0, i] *= kept
        cov[i, 0] *= kept
        for j in range(1, mean.shape[0]):
            cov[i, j] *= kept * kept
        cov[i, i] += (1.0 - kept * kept) * (prior[USER] if i < d else prior[NUMBER])
    cov[0, 0] += (1.0 - kept * kept) * WANDER


@jit
def _settle(effects: ShrunkEffects, m: int, clock: float, row: FeatureRow) -> None:
    """Reckon the blocks of a row up to now."""
    prior = effects.priors[m]
    if prior[TAU] > 0.0:
        d = row.user.shape[0]
        kept = kept_of(prior, clock - effects.shared_time[m])
        _fade_shared(effects.shared[m], effects.shared_cov[m], kept, prior, d)
        _fade(effects.crossed[m], effects.crossed_cov[m], kept, prior[CROSS], prior[CROSS])
        effects.shared_time[m] = clock
        # By the whole time since a block was last touched: exp(-s / tau) exp(-t / tau) =
        # exp(-(s + t) / tau), so putting it off changes nothing.
        for b in row.columns:
            kept = kept_of(prior, clock - effects.columns_time[m, b])
            _fade(effects.columns[m, b], effects.columns_cov[m, b], kept, prior[COLUMN], prior[TASTE])
            effects.columns_time[m, b] = clock
        kept = kept_of(prior, clock - effects.own_time[m, row.product])
        effects.own[m, row.product] *= kept
        effects.own_var[m, row.product] *= kept * kept
        effects.own_var[m, row.product] += (1.0 - kept * kept) * prior[OWN]
        effects.own_time[m, row.product] = clock


@jit
def _times(matrix: FloatArray, x: FloatArray, out: FloatArray) -> float:
    """Write M x to `out (m,)` and return x' M x."""
    out[:] = 0.0
    for i in range(x.shape[0]):
        if x[i] != 0.0:
            for j in range(x.shape[0]):
                out[j] += x[i] * matrix[i, j]
    return dot(out, x)


@jit
def _shared_features(row: FeatureRow) -> FloatArray:
    d = row.user.shape[0]
    x = np.empty(d + row.numbers.shape[0])
    for i in range(d):
        x[i] = row.user[i]
    for i in range(row.numbers.shape[0]):
        x[d + i] = row.numbers[i]
    return x


@jit
def _crossed_features(row: FeatureRow, size: int) -> FloatArray:
    x = np.zeros(size)
    users = row.user.shape[0] - 1
    crossed = size // users if users > 0 else 0
    for i in range(users):
        for j in range(min(crossed, row.numbers.shape[0])):
            x[i * crossed + j] = row.user[1 + i] * row.numbers[j]
    return x


@jit
def predict(effects: ShrunkEffects, m: int, clock: float, row: FeatureRow) -> Gains:
    """Return mean and variance of the sum of effects, reckoned up to now, for `correct` to learn by."""
    _settle(effects, m, clock, row)
    x = _shared_features(row)
    shared = np.empty(x.shape[0])
    # There is room for more numbers of products than have come up so far.
    used = x.shape[0]
    mean = dot(x, effects.shared[m, :used])
    variance = _times(effects.shared_cov[m, :used, :used], x, shared)
    cross = _crossed_features(row, effects.crossed.shape[1])
    crossed = np.empty(cross.shape[0])
    if cross.shape[0] > 0:
        mean += dot(cross, effects.crossed[m])
        variance += _times(effects.crossed_cov[m], cross, crossed)
    columns = np.empty((row.columns.shape[0], row.user.shape[0]))
    for i in range(row.columns.shape[0]):
        b = row.columns[i]
        mean += dot(row.user, effects.columns[m, b])
        variance += _times(effects.columns_cov[m, b], row.user, columns[i])
    mean += effects.own[m, row.product]
    variance += effects.own_var[m, row.product]
    return Gains(shared, crossed, columns, mean, variance)


@jit
def _move(mean: FloatArray, cov: FloatArray, gain: FloatArray, step: float, told: float) -> None:
    for i in range(gain.shape[0]):
        if gain[i] != 0.0:
            mean[i] += gain[i] * step
            share = gain[i] * told
            for j in range(gain.shape[0]):
                # A rank-one correction of a Kalman filter, P - told (P x)(P x)':
                # exact within a block, none between blocks.
                cov[i, j] -= share * gain[j]


@jit
def correct(effects: ShrunkEffects, m: int, row: FeatureRow, gains: Gains, step: float, told: float) -> None:
    """Move the effects of a row by the slope of the log-likelihood at the prediction, `step`, and its curve, `told`."""
    # By the gains of `predict`, which were all made before any block moved.
    used = gains.shared.shape[0]
    _move(effects.shared[m, :used], effects.shared_cov[m, :used, :used], gains.shared, step, told)
    if gains.crossed.shape[0] > 0:
        _move(effects.crossed[m], effects.crossed_cov[m], gains.crossed, step, told)
    for i in range(row.columns.shape[0]):
        b = row.columns[i]
        _move(effects.columns[m, b], effects.columns_cov[m, b], gains.columns[i], step, told)
    own = effects.own_var[m, row.product]
    effects.own[m, row.product] += own * step
    effects.own_var[m, row.product] -= own * own * told


@jit
def learn_priors(effects: ShrunkEffects, first_priors: FloatArray, visits: int) -> None:
    """Learn how large the effects of columns, of visitors' features in them, and of single products are.

    One step towards the variance under which the observations are likeliest (MacKay 1992, "Bayesian Interpolation";
    Bishop 2006, "Pattern Recognition and Machine Learning", eqs. 3.91 and 3.92): the sum of squared posterior means, by
    the number of effects that observations determine, the sum of 1 - posterior variance / prior variance. The first
    variance counts as `FIRST_EFFECTS` effects more. Models that forget keep theirs, since they know what is recent
    alone. Nothing happens but at four visits in each doubling of visits; what it costs then grows with the number of
    columns and the third power of that of visitors' features: .04 s for 400 columns and 50 features.

    Args:
        effects: What is learned; its priors change, and the effects with them.
        first_priors: Variances `(M, 8)` to begin with.
        visits: Visits learned from so far.
    """
    # With visits from 4 `step` up to 8 `step`, four of them are multiples of it.
    step = FIRST_VISITS // 4
    while 8 * step <= visits:
        step *= 2
    if visits < FIRST_VISITS or visits % step != 0:
        return
    d = effects.columns.shape[2]
    for m in range(effects.priors.shape[0]):
        if effects.priors[m, TAU] > 0.0:
            continue
        squares = np.zeros(TAU)
        determined = np.zeros(TAU)
        # Slot 0, of products and of columns, stands for what nothing is known of.
        for p in range(1, effects.own.shape[1]):
            _add_effect(effects, m, OWN, effects.own[m, p], effects.own_var[m, p], squares, determined)
        for b in range(1, effects.columns.shape[1]):
            for i in range(d):
                kind = TASTE if i > 0 else COLUMN
                variance = effects.columns_cov[m, b, i, i]
                _add_effect(effects, m, kind, effects.columns[m, b, i], variance, squares, determined)
        for kind in LEARNED:
            first = first_priors[m, kind]
            variance = (FIRST_EFFECTS * first + squares[kind]) / (FIRST_EFFECTS + determined[kind])
            _change_prior(effects, m, kind, min(max(variance, first / MOST_CHANGE), first * MOST_CHANGE))


@jit
def _add_effect(
    effects: ShrunkEffects, m: int, kind: int, mean: float, variance: float, squares: FloatArray, determined: FloatArray
) -> None:
    """Add an effect to the sums of its kind `(7,)`: of squares, and of how far observations determine it, 0 to 1."""
    prior = effects.priors[m, kind]
    if 0.0 < variance < (1.0 - ROUNDING) * prior:
        squares[kind] += mean * mean
        determined[kind] += 1.0 - variance / prior


@jit
def _change_prior(effects: ShrunkEffects, m: int, kind: int, new: float) -> None:
    """Give effects of a kind another prior variance.

    This adds 1 / new - 1 / old to the precision of each (Sherman & Morrison 1950): exact within a block. Other blocks
    stay, though they would have learned a little more or less beside it.
    """
    old = effects.priors[m, kind]
    if min(old, new) <= 0.0 or abs(new - old) < LEAST_CHANGE * old:
        return
    effects.priors[m, kind] = new
    added_precision = 1.0 / new - 1.0 / old
    least_divisor = min(1.0, old / new)  # as long as a variance is at most the old prior's; rounding may exceed it
    if kind == OWN:
        for p in range(effects.own.shape[1]):
            kept = 1.0 / max(1.0 + added_precision * effects.own_var[m, p], least_divisor)
            effects.own[m, p] *= kept
            effects.own_var[m, p] *= kept
        return
    first_effect, after_last = (0, 1) if kind == COLUMN else (1, effects.columns.shape[2])
    for b in range(effects.columns.shape[1]):
        mean = effects.columns[m, b]
        cov = effects.columns_cov[m, b]
        # As if an effect of 0 had been observed with this precision, which
        # may be below 0: one rank-one change for each.
        for i in range(first_effect, after_last):
            gain = cov[i].copy()
            told = added_precision / max(1.0 + added_precision * gain[i], least_divisor)
            _move(mean, cov, gain, -told * mean[i], told)


def prior_flaws(priors: FloatArray, first_priors: FloatArray) -> Iterator[str]:
    """Yield what cannot have been learned of priors `(M, 8)`."""
    lowest = first_priors.copy()
    highest = first_priors.copy()
    lowest[:, LEARNED] /= MOST_CHANGE
    highest[:, LEARNED] *= MOST_CHANGE
    if not ((lowest <= priors) & (priors <= highest)).all():
        yield f"priors hold a variance that cannot be learned, expected at most {MOST_CHANGE:g} times the first or less"


@jit
def moderation(variance: float) -> float:
    """Return what a logit known up to a variance is multiplied by for its average probability (MacKay 1992, eq. 11)."""
    return float(1.0 / np.sqrt(1.0 + MODERATION * variance))


@jit
def chance_of(logit: float, variance: float) -> float:
    """Return the probability of a yes whose logit is known up to a variance."""
    return float(1.0 / (1.0 + np.exp(-moderation(variance) * logit)))


@jit
def learn_chance(effects: ShrunkEffects, m: int, clock: float, row: FeatureRow, yes: bool) -> float:
    """Learn whether a yes came, by moments (Opper 1998); return the probability that was expected."""
    gains = predict(effects, m, clock, row)
    chance = chance_of(gains.mean, gains.variance)
    slope = moderation(gains.variance)
    # With k the moderation, p = s(k m) and s the logistic function, the log-likelihood
    # of y has the slope k (y - p) in m, and the curvature k^2 p (1 - p).
    told = slope * slope * chance * (1.0 - chance)
    correct(effects, m, row, gains, slope * ((1.0 if yes else 0.0) - chance), told)
    return chance


@jit
def learn_amount(
    effects: ShrunkEffects, m: int, clock: float, row: FeatureRow, amount: float, noise: float
) -> tuple[float, float]:
    """Learn an amount whose own variance is `noise`; return the error of its prediction, and the variance of that."""
    gains = predict(effects, m, clock, row)
    error = amount - gains.mean
    # ln N(amount; mean, noise + variance) has the slope
    # error / (noise + variance), and the curvature 1 / (noise + variance).
    told = 1.0 / (noise + gains.variance)
    correct(effects, m, row, gains, error * told, told)
    return error, noise + gains.variance


class CandidateColumns(NamedTuple):
    """The A columns of which candidates are 1, as slots `columns (A,)`, 0 for what nothing is known of.

    Candidate k is 1 in `columns[active[i]]` for i from `starts[k]` to `starts[k + 1]`, `starts (K + 1,)`.
    """

    columns: IntArray
    starts: IntArray
    active: IntArray


class CandidateInputs(NamedTuple):
    """K candidates before one visitor: `numbers (n, K)`, columns they are 1 of, and slots `products (K,)`.

    Slot 0 stands for what nothing is known of.
    """

    numbers: FloatArray
    ones: CandidateColumns
    products: IntArray


class CandidatePredictions(NamedTuple):
    """The prediction for a visitor's K candidates: `mean (K,)`, and how far it may be off, in standard deviations.

    Of the A columns, `of_columns (A,)`, which all candidates that are 1 of a column share; of single candidates, `own
    (K,)`. What all candidates share, such as the constant, is left out: it orders nothing.
    """

    mean: FloatArray
    of_columns: FloatArray
    own: FloatArray


@jit
def look(
    effects: ShrunkEffects, m: int, clock: float, user: FloatArray, offer: CandidateInputs
) -> CandidatePredictions:
    """Return what each candidate adds up to for a visitor `[1, x_u]`, with its spreads; moves nothing."""
    count = offer.products.shape[0]
    columns = offer.ones.columns.shape[0]
    view = CandidatePredictions(np.empty(count), np.zeros(columns), np.zeros(count))
    of_numbers = np.zeros(offer.numbers.shape[0])
    by_column = np.zeros(columns)
    add_own(effects, m, clock, offer.products, 1.0, view.own)
    base = add_slopes(effects, m, clock, user, offer.ones.columns, 1.0, of_numbers, by_column)
    add_up(offer, base, of_numbers, by_column, view.own, view.mean)
    spread_columns(effects, m, clock, user, offer.ones.columns, view.of_columns)
    spread_own(effects, m, clock, user, offer, np.arange(count), view.own)
    return view


@jit
def add_own(effects: ShrunkEffects, m: int, clock: float, products: IntArray, share: float, out: FloatArray) -> None:
    """Add a share of what candidates are expected to add by themselves, whoever visits, to `out (K,)`."""
    prior = effects.priors[m]
    for k in range(products.shape[0]):
        if products[k]:
            still = kept_of(prior, clock - effects.own_time[m, products[k]])
            out[k] += share * still * effects.own[m, products[k]]


@jit
def add_slopes(
    effects: ShrunkEffects,
    m: int,
    clock: float,
    user: FloatArray,
    columns: IntArray,
    share: float,
    of_numbers: FloatArray,
    by_column: FloatArray,
) -> float:
    """Add a share of the effect of each number for a visitor to `of_numbers (n,)`, of each column to `by_column (A,)`.

    Return that share of what the visitor adds, whatever is shown.
    """
    d = user.shape[0]
    users = user.shape[0] - 1
    numbers = of_numbers.shape[0]
    crossed = effects.crossed.shape[1] // users if users > 0 else 0
    kept = share * kept_of(effects.priors[m], clock - effects.shared_time[m])
    for j in range(numbers):
        of_numbers[j] += kept * effects.shared[m, d + j]
    for i in range(users):
        for j in range(min(crossed, numbers)):
            of_numbers[j] += kept * user[1 + i] * effects.crossed[m, i * crossed + j]
    for a in range(columns.shape[0]):
        if columns[a] > 0:
            still = kept_of(effects.priors[m], clock - effects.columns_time[m, columns[a]])
            by_column[a] += share * still * dot(user, effects.columns[m, columns[a]])
    return share * of_visitor(effects, m, clock, user)


@jit
def add_up(
    offer: CandidateInputs, base: float, of_numbers: FloatArray, by_column: FloatArray, own: FloatArray, out: FloatArray
) -> None:
    """Write what each candidate adds up to, by the effects of its numbers and columns and its own, to `out (K,)`."""
    for k in range(out.shape[0]):
        total = base + own[k]
        for i in range(offer.ones.starts[k], offer.ones.starts[k + 1]):
            total += by_column[offer.ones.active[i]]
        out[k] = total
    add_product(of_numbers, offer.numbers, out)


@jit
def spread_own(
    effects: ShrunkEffects,
    m: int,
    clock: float,
    user: FloatArray,
    offer: CandidateInputs,
    places: IntArray,
    out: FloatArray,
) -> None:
    """Write how far what is of single candidates may be off for a visitor `[1, x_u]`, of those at `places`, to `out`.

    In standard deviations, as `CandidatePredictions.own`.
    """
    covariance = _numbers_covariance(effects, m, clock, user, offer.numbers.shape[0])
    rows = np.empty((min(AT_ONCE, places.shape[0]), covariance.shape[0]))
    for start in range(0, places.shape[0], AT_ONCE):
        stop = min(start + AT_ONCE, places.shape[0])
        for k in range(start, stop):
            for n in range(rows.shape[1]):
                rows[k - start, n] = offer.numbers[n, places[k]]
        quadratic_forms(rows[: stop - start], covariance, out[start:stop])
    _to_deviations(effects, m, clock, offer.products, places, out)


@jit
def bound_own(
    effects: ShrunkEffects,
    m: int,
    clock: float,
    user: FloatArray,
    offer: CandidateInputs,
    square_lengths: FloatArray,
    places: IntArray,
    out: FloatArray,
) -> None:
    """Write what `spread_own` says at most, by the `square_lengths (K,)` of candidates' numbers: a product each."""
    most = bound_of_forms(_numbers_covariance(effects, m, clock, user, offer.numbers.shape[0]))
    for k in range(places.shape[0]):
        out[k] = most * square_lengths[places[k]]
    _to_deviations(effects, m, clock, offer.products, places, out)


@jit
def _to_deviations(
    effects: ShrunkEffects, m: int, clock: float, products: IntArray, places: IntArray, out: FloatArray
) -> None:
    """Make standard deviations of variances by numbers `out (k,)`, with that of a product's own effect added."""
    prior = effects.priors[m]
    for k in range(out.shape[0]):
        product = products[places[k]]
        # Slot 0 holds the prior, which does not fade.
        still = kept_of(prior, clock - effects.own_time[m, product]) if product else 1.0
        out[k] += still * still * effects.own_var[m, product] + (1.0 - still * still) * prior[OWN]
        out[k] = np.sqrt(max(out[k], 0.0))


@jit
def columns_among(ones: CandidateColumns, places: IntArray) -> CandidateColumns:
    """Return the columns of which some of the candidates are 1, those at `places (k,)`."""
    count = places.shape[0]
    starts = np.zeros(count + 1, np.int64)
    active_among = np.full(ones.columns.shape[0], -1)
    for i in range(count):
        starts[i + 1] = starts[i] + ones.starts[places[i] + 1] - ones.starts[places[i]]
    columns = np.empty(ones.columns.shape[0], np.int64)
    active = np.empty(starts[-1], np.int64)
    seen = 0
    for i in range(count):
        for j in range(starts[i + 1] - starts[i]):
            column = ones.active[ones.starts[places[i]] + j]
            # Columns are numbered anew, as the chosen candidates come up that are 1 of them.
            if active_among[column] < 0:
                active_among[column] = seen
                columns[seen] = ones.columns[column]
                seen += 1
            active[starts[i] + j] = active_among[column]
    return CandidateColumns(columns[:seen], starts, active)


@jit
def draw(
    view: CandidatePredictions, ones: CandidateColumns, width: float, normals: FloatArray, out: FloatArray
) -> None:
    """Write one draw of what each candidate adds up to, to `out (K,)`: `normals (A + K,)`, scaled by a width."""
    columns = view.of_columns.shape[0]
    for k in range(out.shape[0]):
        noise = view.own[k] * normals[columns + k]
        # One normal per column, for all candidates that are 1 of it: what is not known of a column moves them together.
        for i in range(ones.starts[k], ones.starts[k + 1]):
            noise += view.of_columns[ones.active[i]] * normals[ones.active[i]]
        out[k] = view.mean[k] + width * noise


@jit
def of_visitor(effects: ShrunkEffects, m: int, clock: float, user: FloatArray) -> float:
    """Return what a visitor adds, whatever is shown."""
    d = user.shape[0]
    kept = kept_of(effects.priors[m], clock - effects.shared_time[m])
    # The constant wanders, but is never pulled towards 0: it alone does not fade.
    return float(user[0] * effects.shared[m, 0] + kept * dot(user[1:], effects.shared[m, 1:d]))


@jit
def _numbers_covariance(effects: ShrunkEffects, m: int, clock: float, user: FloatArray, numbers: int) -> FloatArray:
    """Return the covariance `(n, n)` of the effects of numbers for a visitor."""
    d = user.shape[0]
    users = user.shape[0] - 1
    crossed = effects.crossed.shape[1] // users if users > 0 else 0
    prior = effects.priors[m]
    kept = kept_of(prior, clock - effects.shared_time[m])
    cov = np.empty((numbers, numbers))
    lost = 1.0 - kept * kept
    # Number j acts on a visitor by a_j + sum of u_i C_ij; both blocks are independent, so their covariances add up.
    for j in range(numbers):
        for i in range(numbers):
            cov[j, i] = kept * kept * effects.shared_cov[m, d + j, d + i]
        cov[j, j] += lost * prior[NUMBER]
    for a in range(users):
        for j in range(min(crossed, numbers)):
            cov[j, j] += lost * user[1 + a] ** 2 * prior[CROSS]
        for b in range(users):
            scale = kept * kept * user[1 + a] * user[1 + b]
            if scale != 0.0:
                for j in range(min(crossed, numbers)):
                    for i in range(min(crossed, numbers)):
                        cov[j, i] += scale * effects.crossed_cov[m, a * crossed + j, b * crossed + i]
    return cov


@jit
def spread_columns(
    effects: ShrunkEffects, m: int, clock: float, user: FloatArray, columns: IntArray, out: FloatArray
) -> None:
    """Write the standard deviation of what each column adds for a visitor to `out (A,)`."""
    prior = effects.priors[m]
    # The prior variance of b' [1, x_u]: that of columns never seen, and of what has faded of the others.
    unknown = prior[COLUMN]
    for i in range(1, user.shape[0]):
        unknown += user[i] ** 2 * prior[TASTE]
    scratch = np.empty(user.shape[0])
    for a in range(columns.shape[0]):
        variance = unknown
        b = columns[a]
        if b > 0:
            kept = kept_of(prior, clock - effects.columns_time[m, b])
            known = _times(effects.columns_cov[m, b], user, scratch)
            variance = kept * kept * known + (1.0 - kept * kept) * unknown
        out[a] = np.sqrt(max(variance, 0.0))

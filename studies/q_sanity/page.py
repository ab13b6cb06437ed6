"""What fits and ends tell: a printed check of an ensemble, and of the search on it, beside ours."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_mark, add_seeds, rows_figure
from studies.q_sanity.fits import OURS, PUBLISHED, SEARCHES, TRUTH, End, Fit
from studies.quadratic import EPOCHS, TESTED, TRAINED
from studies.rows import rows_where
from studies.writing import extremes, told
from zoosim.report.drawing import COLORS
from zoosim.report.sections import Drawing, Page, PageTable

PRINTED_MSE, PRINTED_DISTANCE, GOOD_MSE = 0.01, 0.01, 0.002
PRINTED_FIT = ("printed (lessons.md 7.4.1)", "below .01", "", "", "", "", "", "")
PRINTED_END = ("printed (lessons.md 7.4.1)", "its CEM", "within .01", "", "", "")
LABELS = {PUBLISHED: "ReLU, as published", OURS: "zoosim's default"}
ON = {TRUTH: TRUTH, PUBLISHED: "ReLU ensemble", OURS: "zoosim's ensemble"}
TERMS = {
    "the quadratic": "Q(x, a) = x'a - .1 |a|^2 (equation 7.11), 5 numbers in x, 10 in a. A seed has points, first "
    "weights and searches of its own.",
    "as published": f"5 members of 64 and 64 ReLU units, Adam at .003, {EPOCHS} epochs of batches of 64 on {TRAINED:,} "
    "points, rows and values as they come.",
    "zoosim's default": "The same sizes, data and epochs; smooth units, standardised inputs and values, a bootstrap.",
    "MSE": f"Mean squared error of the ensemble's mean on {TESTED:,} points that it has not seen; of a member: the "
    "mean over members.",
    "sigma": "The mean standard deviation over members.",
    "distance": "From the best action for x = [1, 0, 0, 0, 0], which is [.5, 0, ..., 0], Euclidean.",
    "worth": "What the action found is truly worth, as a share of the best action's .475.",
    "published, fast, default": "Textbook CEM (lessons.md, algorithm 7.1): 5 iterations of 64 samples, a tenth of them "
    "elites, a smoothing of .7; zoosim's preset of the same size; up to 120 iterations of 96.",
    "intervals": "95% over seeds (Student's t).",
}


def build_page(rows: Sequence[Fit | End]) -> Page:
    """Tell what was found."""
    measured = [row for row in rows if isinstance(row, Fit)]
    fits = {name: rows_where(measured, method=name) for name in LABELS}
    ends = [row for row in rows if isinstance(row, End)]
    seeds = len(fits[OURS])
    drawings = [
        Drawing(
            "Does the ensemble learn the quadratic?",
            f"Mean squared error on {TESTED:,} unseen points, logarithmic. Pale: a seed each ({seeds}). Full: their "
            "mean with its 95% interval. The printed check asks for an error left of .01.",
            fit_figure(fits),
        ),
        Drawing(
            "Does CEM find the best action?",
            "Distance of the action found from [.5, 0, ..., 0], logarithmic; pale dots are seeds, full ones their mean "
            "with its 95% interval. Rows on top: the search on the true function. Below: on trained ensembles, whose "
            "own best action lies elsewhere. The printed check asks for .01.",
            end_figure(ends),
        ),
    ]
    return Page(answer(fits), [_fits(fits), _ends(ends)], drawings, TERMS, details=[verdict(fits, ends)])


def answer(fits: dict[str, list[Fit]]) -> str:
    """Return which units to use."""
    ours, published = (float(np.mean([fit.mse for fit in fits[name]])) for name in (OURS, PUBLISHED))
    better, worse = ("smooth", "ReLU") if ours < published else ("ReLU", "smooth")
    low, high = sorted((ours, published))
    return f"Use {better} units: their mean squared error is {_short(low)}, against {_short(high)} with {worse} units."


def verdict(fits: dict[str, list[Fit]], ends: Sequence[End]) -> str:
    """Say in a sentence or two whether the check passes."""
    ours, published = ([fit.mse for fit in fits[name]] for name in (OURS, PUBLISHED))
    passed, n = sum(mse < PRINTED_MSE for mse in published), len(ours)
    true, learned = (of(ends, name, "default") for name in (TRUTH, OURS))
    arrived = sum(end.distance < PRINTED_DISTANCE for end in true)
    return (
        f"Smooth units pass the printed check with room: MSE {_short(np.mean(ours))} (worst {_short(max(ours))}), "
        f"under .002 on {sum(mse < GOOD_MSE for mse in ours)} of {n} seeds; ReLU units as published have "
        f"{_short(np.mean(published))}, under .01 on {passed} of {n}. CEM at its default ends within .01 of the best "
        f"action on the true function on {arrived} of {n} seeds. On the trained ensemble it ends "
        f"{_short(np.mean([end.distance for end in learned]), 2)} away, at an action worth "
        f"{100 * np.mean([end.share for end in learned]):.1f}% of the best: the function is so flat there that small "
        f"errors move the top far."
    )


def of(ends: Sequence[End], objective: str, search: str) -> list[End]:
    """Return the ends of a search on an objective."""
    return rows_where(ends, objective=objective, search=search)


def _short(value: float | np.floating, digits: int = 4) -> str:
    return f"{value:.{digits}f}".lstrip("0").rstrip("0")


def _fits(fits: dict[str, list[Fit]]) -> PageTable:
    heads = ("ensemble", "MSE", "worst", "under .01", "under .002", "MSE of a member", "sigma", "largest error")
    rows: list[tuple[str, ...]] = [PRINTED_FIT]
    for name, own in fits.items():
        mse = [fit.mse for fit in own]
        under = (f"{sum(value < bar for value in mse)} of {len(mse)}" for bar in (PRINTED_MSE, GOOD_MSE))
        rest = [np.mean([getattr(fit, key) for fit in own]) for key in ("member_mse", "sigma", "largest")]
        means = (f"{value:.{digits}f}" for value, digits in zip(rest, (4, 3, 2), strict=True))
        rows.append((LABELS[name], told(mse, 4), f"{max(mse):.5f}", *under, *means))
    return PageTable(
        f"{TRAINED:,} points, {EPOCHS} epochs", heads, rows, caption="In brackets 95% intervals over seeds."
    )


def _ends(ends: Sequence[End]) -> PageTable:
    heads = ("objective", "search", "distance", "lowest to highest", "within .01", "worth")
    rows: list[tuple[str, ...]] = [PRINTED_END]
    for objective in ON:
        for search in SEARCHES:
            own = of(ends, objective, search)
            far = [end.distance for end in own]
            hits = f"{sum(distance < PRINTED_DISTANCE for distance in far)} of {len(far)}"
            worth = told([end.share for end in own], 1, percent=True)
            rows.append((ON[objective], search, told(far, 3), extremes(far, 4), hits, worth))
    caption = "The action found for x = [1, 0, 0, 0, 0]; in brackets 95% intervals over seeds."
    return PageTable("CEM for one context", heads, rows, n_text=2, caption=caption)


def fit_figure(fits: dict[str, list[Fit]]) -> go.Figure:
    """Draw the errors of both ensembles."""
    figure = rows_figure([LABELS[name] for name in fits], "mean squared error")
    for row, (name, own) in enumerate(fits.items()):
        color = COLORS[0] if name == OURS else COLORS[1]
        add_seeds(figure, [fit.mse for fit in own], row, color, LABELS[name], ".4f")
    add_mark(figure, PRINTED_MSE, "asked for: .01", log=True)
    figure.update_xaxes(type="log", range=[-3.1, -1.5], tickvals=[0.001, 0.002, 0.005, 0.01, 0.02])
    return figure


def end_figure(ends: Sequence[End]) -> go.Figure:
    """Draw how far each search ends from the best action on each objective."""
    pairs = [(objective, search) for objective in ON for search in SEARCHES]
    figure = rows_figure([f"{ON[objective]}: {search}" for objective, search in pairs], "distance from the best action")
    for row, (objective, search) in enumerate(pairs):
        own = [end.distance for end in of(ends, objective, search)]
        add_seeds(figure, own, row, COLORS[list(SEARCHES).index(search)], search, ".4f")
    add_mark(figure, PRINTED_DISTANCE, "asked for: .01", log=True)
    figure.update_xaxes(type="log", tickvals=[0.001, 0.01, 0.1, 1])
    return figure

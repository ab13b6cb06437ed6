"""The exact Euclidean projection onto a trust region: a ball and the box [-a_max, a_max]^d together.

Clipping to the box and then scaling to the ball, or the other way round, ends in the region but not at its nearest
point. With v = a - centre and b_i the distance from the centre to the side of the box that v_i points to, the nearest
point is centre + sign(v_i) min(s |v_i|, b_i), with s in (0, 1] such that its squares add up to radius^2 (the
Karush-Kuhn-Tucker conditions; s = 1 / (1 + multiplier of the ball)).
"""

import numpy as np

from zoosim.core.checks import check_base, check_points, check_radius
from zoosim.core.jit import jit
from zoosim.core.types import FloatArray


def project_trust_region(a: FloatArray, a_prev: FloatArray, delta: float, a_max: float = np.inf) -> FloatArray:
    """Return the point of the trust region that is nearest to `a`, the same shape: `(d,)`, or `(n, d)` for n points.

    Args:
        a: Points to project, finite.
        a_prev: Centre `(d,)` of the ball, inside the box.
        delta: Radius of the ball, above 0.
        a_max: Half the width of the box [-a_max, a_max]^d; infinite for the ball alone.

    Raises:
        ConfigError: An argument is out of range or of another shape.
    """
    points = check_points("a", a)
    centre = check_base("a_prev", a_prev, points.shape[-1:], a_max)
    radius = check_radius("delta", delta, ())
    out = points.reshape(-1, points.shape[-1]).copy()
    _project_all(out, centre, float(radius), a_max)
    return out.reshape(points.shape)


@jit
def _project_all(points: FloatArray, centre: FloatArray, radius: float, a_max: float) -> None:
    for i in range(points.shape[0]):
        project(points[i], centre, radius, a_max)


@jit
def copy(a: FloatArray, out: FloatArray) -> None:
    """Write an array over another one; an assignment of slices takes seconds to compile.

    Args:
        a: What is written, `(d,)`.
        out: Overwritten, at least as long.
    """
    for k in range(a.shape[0]):
        out[k] = a[k]


@jit
def project(a: FloatArray, centre: FloatArray, radius: float, a_max: float) -> None:
    """Replace a point by the nearest point of ball and box.

    The loop solves for `share` (s above) without sorting: with no side of the box reached it is too small; each pass
    takes the sides that it already reaches as reached, so it only grows, and at most d passes end at the exact one.

    Args:
        a: The point, `(d,)`; changed in place.
        centre: Centre `(d,)` of the ball, inside the box.
        radius: Radius of the ball; infinite for the box alone, whatever `centre`.
        a_max: Half the width of the box.
    """
    if _distance(a, centre, a_max, 1.0) <= radius:
        _place(a, centre, a_max, 1.0)
        return
    share = 0.0
    previous = -1.0
    while share > previous:
        previous = share
        remaining = radius * radius
        free = 0.0
        for i in range(a.shape[0]):
            v = abs(a[i] - centre[i])
            b = _room(a[i], centre[i], a_max)
            if share * v >= b:
                remaining -= b * b
            else:
                free += v * v
        # Free coordinates share what reached sides leave of the radius: s^2 sum v_i^2 = radius^2 - sum b_i^2.
        share = max(share, np.sqrt(max(remaining, 0.0) / free)) if free > 0.0 else share
    _place(a, centre, a_max, share)


@jit
def _room(a: float, centre: float, a_max: float) -> float:
    """Return the distance from `centre` to the side of the box in the direction of `a`."""
    return a_max - centre if a > centre else a_max + centre


@jit
def _distance(a: FloatArray, centre: FloatArray, a_max: float, s: float) -> float:
    total = 0.0
    for i in range(a.shape[0]):
        step = min(s * abs(a[i] - centre[i]), _room(a[i], centre[i], a_max))
        total += step * step
    return float(np.sqrt(total))


@jit
def _place(a: FloatArray, centre: FloatArray, a_max: float, s: float) -> None:
    """Replace `a` by centre + s (a - centre), cut to the box."""
    for i in range(a.shape[0]):
        # Not centre + 1 (a - centre), which rounds: points inside stay as they are, to the bit.
        moved = a[i] if s == 1.0 else centre[i] + s * (a[i] - centre[i])
        a[i] = min(max(moved, -a_max), a_max)

"""The rankings that boosts can reach: as many as the planes on which two products tie leave cells in the box."""

import numpy as np

from zoosim.core.types import FloatArray, IntArray

APART = 1e-9
"""Planes that are nearer to a point, in units of the box, run through it."""


def reachable_boosts(base: FloatArray, features: FloatArray, k: int, a_max: float) -> FloatArray:
    """Return boosts for each ranking that some boosts make, `(R, d)`; no boosts at all stand first.

    Two products change places where boosts cross the plane on which their scores tie. The planes cut the box into
    cells, within which the ranking stays the same. Each cell has a face on a plane or on a side of the box, so that
    points on both sides of each face meet every cell; and the faces on a plane are the cells into which the others cut
    it, of one dimension less. Boosts on a plane itself, where scores tie, are left out.

    Args:
        base: Base scores of the products, `(K,)`.
        features: Boost features, `(K, d)`.
        k: How many products are shown.
        a_max: Half the width of the box of boosts.
    """
    dim = features.shape[1]
    one, other = np.triu_indices(len(base), 1)
    # In units of the box, whose sides are planes, too.
    normals = np.concatenate([a_max * (features[one] - features[other]), np.eye(dim), np.eye(dim)])
    heights = np.concatenate([base[other] - base[one], np.ones(dim), -np.ones(dim)])
    points = np.concatenate([np.zeros((1, dim)), _points_in_cells(normals, heights)])
    boosts = a_max * points[(np.abs(points) < 1.0).all(axis=1)]
    # One number for each ranking: rows of numbers sort more slowly.
    codes = rankings_by(base, features, boosts, k) @ len(base) ** np.arange(k)
    _, first = np.unique(codes, return_index=True)
    found: FloatArray = boosts[np.sort(first)]
    return found


def rankings_by(base: FloatArray, features: FloatArray, boosts: FloatArray, k: int) -> IntArray:
    """Return the products that are shown, best first, `(n, k)`; of equal scores the first product.

    Args:
        base: Base scores of the products, `(K,)`.
        features: Boost features, `(K, d)`.
        boosts: `(n, d)`.
        k: How many products are shown.
    """
    ranked: IntArray = np.argsort(-(base + boosts @ features.T), axis=1, kind="stable")[:, :k]
    return ranked


def _points_in_cells(normals: FloatArray, heights: FloatArray) -> FloatArray:
    """Return points `(n, d)`, at least one in each bounded cell between the planes `normals @ x = heights`."""
    lengths = np.sqrt(np.sum(normals**2, axis=1))
    is_plane = lengths > APART
    normals = normals[is_plane] / lengths[is_plane, np.newaxis]
    heights = heights[is_plane] / lengths[is_plane]
    if normals.shape[1] == 1:
        ends = np.sort(normals[:, 0] * heights)
        apart = np.diff(ends) > APART
        return ((ends[1:] + ends[:-1]) / 2.0)[apart, np.newaxis]
    points = []
    for normal, height in zip(normals, heights, strict=True):
        # What spans the plane: the directions beside its normal in an orthonormal basis.
        along = np.linalg.svd(normal[np.newaxis])[2][1:]
        foot = height * normal
        on_plane = foot + _points_in_cells(normals @ along.T, heights - normals @ foot) @ along
        gaps = np.abs(on_plane @ normals.T - heights)
        # Half way to the next plane that does not run through the point, so that no other is crossed.
        step = np.where(gaps > APART, gaps, 1.0).min(axis=1, keepdims=True) / 2.0
        points += [on_plane + step * normal, on_plane - step * normal]
    return np.concatenate(points)

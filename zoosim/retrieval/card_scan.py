"""A scan on a graphics card, through torch: which products could be among the best, for the processor to score.

The card scores all products in 32 bits, each off by no more than rounding allows (Higham 2002, "Accuracy and Stability
of Numerical Algorithms", eq. 3.5): |error| <= gamma |q| |v|, in whatever order it adds up. Products that are further
than twice that below the k-th best are not among the best k. The processor scores the others as it does without a card,
so what is found is the same, to the bit.
"""

from typing import Any

import numpy as np
import torch

from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.retrieval.scan import NO_SLOT, rank_in_threads
from zoosim.retrieval.vectors import Vectors

PIECES_PER_SCORE = 16
"""Pieces in which the best are sought, for each of them: where the best lie anywhere, few pieces hold two of them."""

LARGEST_PASS = 2**29
"""Scores that a card holds at once: 2 GB."""

MOST_FOUND = 2**25
"""Products that are ranked at once, over all queries: where scores tie, all could be among the best of each."""

UNIT = 2.0**-24
"""Largest relative rounding of a number of 32 bits."""

COARSE = 2.0**-7
"""At least the relative error of a product where torch is allowed to multiply numbers of fewer bits."""

LEAST = 2.0**-125
"""What a product of two numbers may lose where the card takes very small numbers for 0."""


class CardScan:
    """Vectors on a graphics card, sent there anew when they have changed."""

    def __init__(self, device: str) -> None:
        """Begin with none; `device` has been checked."""
        self._device = device
        self._version = ""
        self._sent = torch.empty(0)
        self._longest = 0.0

    def search(
        self, vectors: Vectors, queries: FloatArray, k: int, allowed: BoolArray | None
    ) -> tuple[IntArray, FloatArray]:
        """Return the slots and scores `(Q, k)` of the best products for each query, the best first.

        Args:
            vectors: What is searched; at least one product may be found.
            queries: The queries `(Q, d)`.
            k: How many products.
            allowed: Which may be found, by their ids' order `(n,)`; None for all.
        """
        self._follow(vectors)
        units = _of_largest_number_1(queries)
        mask = None if allowed is None else torch.from_numpy(allowed).to(self._device)
        at_once = max(1, LARGEST_PASS // len(vectors.ids))
        slots = np.full((len(queries), k), NO_SLOT)
        scores = np.full((len(queries), k), -np.inf)
        for start in range(0, len(queries), at_once):
            rows = slice(start, start + at_once)
            could_be = self._could_be_best(units[rows], k, mask)
            counts = could_be.sum(dim=1).cpu().numpy()
            pieces = np.split(np.arange(len(counts)), np.flatnonzero(np.diff(counts.cumsum() // MOST_FOUND)) + 1)
            for piece in pieces:
                places = could_be[piece[0] : piece[-1] + 1].nonzero()[:, 1].cpu().numpy()
                starts = np.append(0, counts[piece].cumsum())
                asked = start + piece
                slots[asked], scores[asked] = rank_in_threads(
                    vectors.stored, vectors.slots, places, starts, queries[asked], k
                )
        return slots, scores

    def _follow(self, vectors: Vectors) -> None:
        if self._version != vectors.version:
            held = vectors.stored.vectors[vectors.slots]
            self._longest = float(np.sqrt(np.einsum("ij,ij->i", held, held, dtype=np.float64).max()))
            self._sent = torch.from_numpy(held).to(self._device)
            self._version = vectors.version

    def _could_be_best(self, units: FloatArray, k: int, mask: torch.Tensor | None) -> torch.Tensor:
        """Return which products could be among the best of each query `(Q, n)`, by the order of their ids."""
        scores = torch.from_numpy(units.astype(np.float32)).to(self._device) @ self._sent.T
        if mask is not None:
            scores.masked_fill_(~mask, -torch.inf)
        n_allowed = scores.shape[1] if mask is None else int(mask.sum())
        last = _reached_by(scores, min(k, n_allowed)).cpu().numpy().astype(np.float64)
        lengths = np.sqrt((units**2).sum(axis=1))
        # Rounded down, as the card compares numbers of 32 bits.
        least = np.nextafter((last - 2.0 * self._largest_error(lengths)).astype(np.float32), np.float32(-np.inf))
        could_be = scores >= torch.from_numpy(least).to(self._device)[:, None]
        if mask is not None:
            could_be &= mask
        return could_be

    def _largest_error(self, lengths: FloatArray) -> Any:
        """Return the largest error of a score `(Q,)` of queries of these lengths."""
        width = self._sent.shape[1]
        terms = width + 2  # the sum, its products, and the query's own rounding
        # A little more, for what the processor's own scores of 64 bits are off by.
        relative = (1.0 + 1e-6) * terms * UNIT / (1.0 - terms * UNIT)
        if torch.get_float32_matmul_precision() != "highest":
            relative += COARSE
        return relative * lengths * self._longest + width * LEAST


def _of_largest_number_1(queries: FloatArray) -> FloatArray:
    """Return queries in the units of their largest numbers, so that 32 bits hold them; the order stays the same."""
    largest = np.abs(queries).max(axis=1, keepdims=True)
    return queries / np.where(largest > 0.0, largest, 1.0)


def _reached_by(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Return what at least k scores of each query `(Q,)` reach: close to the k-th largest where there are many scores.

    Of pieces the largest scores are taken first: k pieces whose largest reach a number hold k scores that do. One pass
    over the scores then replaces several. A piece's scores lie far from each other, as products of a kind lie together.
    """
    width = scores.shape[1] // (PIECES_PER_SCORE * k)
    if width > 1:
        whole = scores[:, : scores.shape[1] // width * width]
        largest = whole.view(len(scores), width, -1).amax(dim=1)
        reached = largest.topk(k, dim=1).values[:, -1]
        if torch.isfinite(reached).all():
            return reached
    return scores.topk(k, dim=1).values[:, -1]

"""Blocks of columns that belong together, such as the levels of a category, and how their columns are scaled."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray


class Scaling(NamedTuple):
    """The scaling of columns: less `centre (d,)`, times `scale (d,)`; and the block that each is in `(d,)`."""

    centre: FloatArray
    scale: FloatArray
    blocks: IntArray


def scale_blocks(columns: FloatArray) -> Scaling:
    """Return how `columns (n, d)` are scaled: by block, so that the levels of a category stay comparable.

    A column that does not vary becomes 0.
    """
    blocks = exclusive_blocks(columns)
    variances = columns.var(axis=0)
    means = np.bincount(blocks, variances) / np.bincount(blocks).clip(1)
    scale = np.where(variances > 0.0, 1.0 / np.sqrt(np.where(variances > 0.0, means[blocks], 1.0)), 0.0)
    return Scaling(columns.mean(axis=0), scale, blocks)


def exclusive_blocks(columns: FloatArray) -> IntArray:
    """Return the block of each of `columns (n, d)`, such as the levels of a category: `(d,)`, from 0.

    Columns next to each other of which at most one is not 0 in any row are a block.
    """
    blocks = np.zeros(columns.shape[1], np.int64)
    is_taken = np.zeros(len(columns), bool)
    for number in range(1, columns.shape[1]):
        is_taken |= columns[:, number - 1] != 0.0
        overlaps = bool((is_taken & (columns[:, number] != 0.0)).any())
        blocks[number] = blocks[number - 1] + overlaps
        if overlaps:
            is_taken[:] = False
    return blocks

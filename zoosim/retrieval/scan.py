"""The k largest inner products of queries with millions of vectors, exact, by a scan of rounded vectors with bounds.

Each vector is kept a second time, rounded to whole numbers of 8 bits: a quarter of the memory that has to be read, and
sums of which a processor computes many at once. The rounded product is off by at most

    e |q| + |x'| |q - q'|,   x' and q' the rounded vector and query, e = |x - x'|,

by the inequality of Cauchy and Schwarz, so each has a lower and an upper bound. Only vectors whose upper bound reaches
the k-th largest lower bound can be among the k best: some hundreds of a million. These alone are scored exactly, so
what comes out is what a scan of all exact scores would give.

Vectors stand in blocks of 64, and in a block by coordinate: the same coordinate of 64 vectors lies side by side, so
that a compiler makes one instruction of 16 or 32 products. When an index is built the longest vectors come first: those
of a block are of one length, so bounds are kept per block, and |x| |q| alone says of the last blocks that none of their
vectors can be among the best.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.prefetch import prefetch
from zoosim.core.threads import map_in_threads, n_threads
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.retrieval.selection import kth_largest

LANES = 64
"""Vectors of a block."""

GROUP = 4
"""Coordinates whose products are summed together, two and two in 16 bits: 2 x 127 x 127 = 32,258 fits."""

VECTOR_STEPS = 127
QUERY_STEPS = 127

SLACK = 1e-6
"""Relative allowance for what is computed in 32 bits, some four roundings of 6e-8 each."""

LEAST_SCALE = 1e-30
"""The least that a code's 1 stands for: smaller numbers 32 bits hold with fewer digits."""

CHUNK = 128
"""Blocks that all queries of a batch look at in turn, while the processor's cache holds them."""

LEAST_PER_THREAD = 4
"""Queries that are worth a thread."""

NO_SLOT = -1
NO_ID = -1
"""Stands where an index holds, or a mask allows, fewer products than were asked for."""


class Stored(NamedTuple):
    """What an index keeps of C vectors of D coordinates in B = C / 64 blocks; a slot is a place in these arrays.

    `vectors (C, D)`; `codes (B, D', 64)`, the rounded vectors by coordinate, D' the next multiple of 4; `scales
    (B, 64)`, what a code's 1 stands for, NaN where a slot is free: a score that is no number reaches no bound; `errors
    (B,)`, at least the largest |x - x'| of a block, each in units of its own scale; `norms (B,)`, at least the largest
    |x| and |x'| of a block; `ids (C,)`, -1 where a slot is free; `places (C,)`, the rank of a slot's id among all ids.
    """

    vectors: np.ndarray
    codes: np.ndarray
    scales: np.ndarray
    errors: np.ndarray
    norms: np.ndarray
    ids: IntArray
    places: IntArray


def new_stored(capacity: int, width: int) -> Stored:
    """Return room for a number of vectors, rounded up to whole blocks."""
    n_blocks = -(-capacity // LANES)
    padded_width = -(-width // GROUP) * GROUP
    return Stored(
        vectors=np.zeros((n_blocks * LANES, width), np.float32),
        codes=np.zeros((n_blocks, padded_width, LANES), np.int8),
        scales=np.full((n_blocks, LANES), np.float32(np.nan)),
        errors=np.zeros(n_blocks, np.float32),
        norms=np.zeros(n_blocks, np.float32),
        ids=np.full(n_blocks * LANES, NO_ID),
        places=np.zeros(n_blocks * LANES, np.int64),
    )


@jit
def store(stored: Stored, slots: IntArray, ids: IntArray, vectors: np.ndarray) -> None:
    """Write products with ids `(m,)` and vectors `(m, D)` to slots `(m,)`, and round the vectors."""
    for i in range(len(slots)):
        stored.ids[slots[i]] = ids[i]
        _store_one(stored, slots[i], vectors[i])


@jit
def _store_one(stored: Stored, slot: int, vector: np.ndarray) -> None:
    block = slot // LANES
    lane = slot % LANES
    largest = 0.0
    for value in vector:
        largest = max(largest, abs(value))
    # In 32 bits, as the scan has it: the errors are those of the scale that is used.
    scale = np.float64(np.float32(max(largest / VECTOR_STEPS, LEAST_SCALE)))
    error = 0.0
    norm = 0.0
    rounded_norm = 0.0
    for j in range(len(vector)):
        stored.vectors[slot, j] = vector[j]
        ratio = vector[j] / scale
        code = min(max(np.round(ratio), -VECTOR_STEPS), VECTOR_STEPS)
        stored.codes[block, j, lane] = np.int8(code)
        error += (ratio - code) ** 2
        norm += np.float64(vector[j]) ** 2
        rounded_norm += (scale * code) ** 2
    stored.scales[block, lane] = scale
    stored.errors[block] = max(stored.errors[block], np.float32(np.sqrt(error) * (1 + SLACK) + SLACK))
    norm = max(np.sqrt(norm), np.sqrt(rounded_norm), LEAST_SCALE)
    stored.norms[block] = max(stored.norms[block], np.float32(norm * (1 + SLACK)))


@jit
def forget(stored: Stored, slots: IntArray, blocks: IntArray) -> None:
    """Free slots `(m,)` of some blocks, and let the bounds of these be those of the vectors that stay."""
    for slot in slots:
        stored.ids[slot] = NO_ID
        stored.scales[slot // LANES, slot % LANES] = np.float32(np.nan)
    for block in blocks:
        stored.errors[block] = 0
        stored.norms[block] = 0
        for other in range(block * LANES, (block + 1) * LANES):
            if stored.ids[other] != NO_ID:
                _store_one(stored, other, stored.vectors[other])


def search_in_threads(
    stored: Stored, blocks: IntArray, queries: FloatArray, k: int, allowed: BoolArray
) -> tuple[IntArray, FloatArray]:
    """Return what `search_blocks` does; many queries are shared out to threads."""
    n_pieces = max(1, min(n_threads(), len(queries) // LEAST_PER_THREAD))
    if n_pieces == 1:
        return search_blocks(stored, blocks, queries, k, allowed)

    def search(piece: IntArray) -> tuple[IntArray, FloatArray]:
        return search_blocks(stored, blocks if len(blocks) == 1 else blocks[piece], queries[piece], k, allowed)

    slots, scores = zip(*map_in_threads(search, np.array_split(np.arange(len(queries)), n_pieces)), strict=True)
    return np.concatenate(slots), np.concatenate(scores)


@jit
def search_blocks(
    stored: Stored, blocks: IntArray, queries: FloatArray, k: int, allowed: BoolArray
) -> tuple[IntArray, FloatArray]:
    """Return the slots and scores `(Q, k)` of the largest inner products with queries `(Q, D)`, the largest first.

    Of equal scores the lower id comes first; where there are fewer than k, slots are -1 and scores -inf. `blocks
    (Q, R)`, or `(1, R)` for all queries alike, are those to look at. `allowed` is a mask over places, empty where all
    are.
    """
    n_queries = len(queries)
    codes = np.zeros((n_queries, stored.codes.shape[1]), np.int16)
    scales = np.zeros(n_queries, np.float32)
    errors = np.zeros(n_queries, np.float32)
    for i in range(n_queries):
        scales[i], errors[i] = _round_query(queries[i], codes[i])
    # What may be among the best of each query, with its bounds; the room for it grows.
    room = 4 * k + 4 * LANES
    survivors = [np.empty(room, np.int64) for _ in range(n_queries)]
    lower_bounds = [np.empty(room, np.float32) for _ in range(n_queries)]
    upper_bounds = [np.empty(room, np.float32) for _ in range(n_queries)]
    counts = np.zeros(n_queries, np.int64)
    # The k-th largest lower bound of each query, as it was when there was no more room.
    thresholds = np.full(n_queries, np.float32(-np.inf))
    for chunk in range(0, blocks.shape[1], CHUNK):
        for i in range(n_queries):
            chosen = blocks[i if len(blocks) > 1 else 0, chunk : chunk + CHUNK]
            n_seen = 0
            while True:
                n_more, n_survivors = _scan(
                    stored, chosen[n_seen:], codes[i], scales[i], errors[i], allowed,
                    thresholds[i], survivors[i], lower_bounds[i], upper_bounds[i], counts[i],
                )  # fmt: skip
                n_seen += n_more
                counts[i] = n_survivors
                if n_seen == len(chosen):
                    break
                thresholds[i], counts[i] = _raise_threshold(
                    survivors[i], lower_bounds[i], upper_bounds[i], counts[i], k
                )
                if 2 * counts[i] > len(survivors[i]):
                    survivors[i] = np.append(survivors[i], np.empty_like(survivors[i]))
                    lower_bounds[i] = np.append(lower_bounds[i], np.empty_like(lower_bounds[i]))
                    upper_bounds[i] = np.append(upper_bounds[i], np.empty_like(upper_bounds[i]))
    slots = np.full((n_queries, k), NO_SLOT)
    scores = np.full((n_queries, k), -np.inf)
    for i in range(n_queries):
        _, count = _raise_threshold(survivors[i], lower_bounds[i], upper_bounds[i], counts[i], k)
        _rank(stored, survivors[i][:count], queries[i], slots[i], scores[i])
    return slots, scores


@jit
def search_slots(stored: Stored, slots: IntArray, queries: FloatArray, k: int) -> tuple[IntArray, FloatArray]:
    """Return what `search_blocks` does, of some slots alone `(m,)`, each of which is scored exactly."""
    best = np.full((len(queries), k), NO_SLOT)
    scores = np.full((len(queries), k), -np.inf)
    for i in range(len(queries)):
        _rank(stored, slots, queries[i], best[i], scores[i])
    return best, scores


def rank_in_threads(
    stored: Stored, slots: IntArray, places: IntArray, starts: IntArray, queries: FloatArray, k: int
) -> tuple[IntArray, FloatArray]:
    """Return what `search_blocks` does, of some places in `slots` alone: `starts[i]` to `starts[i + 1]` of query i."""
    pieces = np.array_split(np.arange(len(queries)), max(1, min(n_threads(), len(queries) // LEAST_PER_THREAD)))
    ranked = map_in_threads(lambda piece: _rank_each(stored, slots, places, starts, queries, piece, k), pieces)
    best, scores = zip(*ranked, strict=True)
    return np.concatenate(best), np.concatenate(scores)


@jit
def _rank_each(
    stored: Stored,
    slots: IntArray,
    places: IntArray,
    starts: IntArray,
    queries: FloatArray,
    asked: IntArray,
    k: int,
) -> tuple[IntArray, FloatArray]:
    best = np.full((len(asked), k), NO_SLOT)
    scores = np.full((len(asked), k), -np.inf)
    for row, i in enumerate(asked):
        _rank(stored, slots[places[starts[i] : starts[i + 1]]], queries[i], best[row], scores[row])
    return best, scores


@jit
def read_slots(stored: Stored, slots: IntArray) -> tuple[IntArray, np.ndarray]:
    """Return the ids `(m,)` and vectors `(m, D)` that stand in slots, up to the first slot of -1."""
    count = 0
    while count < len(slots) and slots[count] != NO_SLOT:
        count += 1
    ids = np.empty(count, np.int64)
    vectors = np.empty((count, stored.vectors.shape[1]), np.float32)
    for i in range(count):
        ids[i] = stored.ids[slots[i]]
        for j in range(vectors.shape[1]):
            vectors[i, j] = stored.vectors[slots[i], j]
    return ids, vectors


@inlined
def _round_query(query: FloatArray, codes: np.ndarray) -> tuple[np.float32, np.float32]:
    """Write a query of norm 1 as whole numbers; return what their 1 stands for, and the norm of the difference."""
    largest = 0.0
    squares = 0.0
    for value in query:
        largest = max(largest, abs(value))
    if largest == 0:
        return np.float32(0), np.float32(0)
    for value in query:  # by the largest first: squares of very small or large numbers are none
        squares += (value / largest) ** 2
    norm = np.sqrt(squares)
    scale = np.float64(np.float32(1 / norm / QUERY_STEPS))
    error = 0.0
    for j in range(len(query)):
        value = query[j] / largest / norm
        code = min(max(np.round(value / scale), -QUERY_STEPS), QUERY_STEPS)
        codes[j] = np.int16(code)
        error += (value - scale * code) ** 2
    return np.float32(scale), np.float32(np.sqrt(error))


@jit
def _scan(
    stored: Stored,
    blocks: IntArray,
    codes: np.ndarray,
    scale: np.float32,
    error: np.float32,
    allowed: BoolArray,
    threshold: np.float32,
    survivors: IntArray,
    lower_bounds: np.ndarray,
    upper_bounds: np.ndarray,
    count: int,
) -> tuple[int, int]:
    """Add the slots of blocks whose upper bound reaches a threshold to `survivors`.

    Returns how many blocks were looked at, not all where the room was full, and how many survivors there are.
    """
    sums = np.zeros(LANES, np.int32)
    uppers = np.zeros(LANES, np.float32)
    margins = np.zeros(LANES, np.float32)
    query_share = error + np.float32(4 * SLACK)
    one = np.float32(1 + 4 * SLACK)
    for n_seen in range(len(blocks)):
        if count + LANES > len(survivors):
            return n_seen, count
        block = blocks[n_seen]
        # No score in this block is beyond |x| |q|, and the query's norm is 1.
        if stored.norms[block] * one < threshold:
            continue
        following = blocks[min(n_seen + 1, len(blocks) - 1)]
        _sum_products(stored.codes[block], codes, sums, stored.codes[following])
        vector_share = stored.errors[block] * one
        query_margin = stored.norms[block] * query_share
        n_reaching = 0
        for lane in range(LANES):
            vector_scale = stored.scales[block, lane]
            margins[lane] = vector_scale * vector_share + query_margin
            uppers[lane] = np.float32(sums[lane]) * (vector_scale * scale) + margins[lane]
            n_reaching += int(uppers[lane] >= threshold)
        if n_reaching == 0:
            continue
        for lane in range(LANES):
            if not uppers[lane] >= threshold:  # free slots, too, whose scores are no numbers
                continue
            slot = block * LANES + lane
            if len(allowed) > 0 and not allowed[stored.places[slot]]:
                continue
            survivors[count] = slot
            lower_bounds[count] = uppers[lane] - np.float32(2) * margins[lane]
            upper_bounds[count] = uppers[lane]
            count += 1
    return len(blocks), count


@inlined
def _sum_products(
    vector_codes: np.ndarray, query_codes: np.ndarray, sums: np.ndarray, following_codes: np.ndarray
) -> None:
    """Write the inner products of the codes of a block `(D', 64)` with those of a query `(D',)` to `sums (64,)`.

    Asks for the memory of the codes of the block that follows, line by line, which takes a third off a search of blocks
    here and there.
    """
    for lane in range(LANES):
        sums[lane] = 0
    for j in range(0, len(vector_codes), GROUP):
        first, second = vector_codes[j], vector_codes[j + 1]
        third, fourth = vector_codes[j + 2], vector_codes[j + 3]
        a, b, c, d = query_codes[j], query_codes[j + 1], query_codes[j + 2], query_codes[j + 3]
        for line in range(GROUP):
            prefetch(following_codes[j + line])
        for lane in range(LANES):
            # Said of each step, so that a compiler keeps to 16 bits: twice as many products to an instruction.
            one_half = np.int16(np.int16(np.int16(first[lane]) * a) + np.int16(np.int16(second[lane]) * b))
            other_half = np.int16(np.int16(np.int16(third[lane]) * c) + np.int16(np.int16(fourth[lane]) * d))
            sums[lane] += np.int32(np.int32(one_half) + np.int32(other_half))


@jit
def _raise_threshold(
    survivors: IntArray, lower_bounds: np.ndarray, upper_bounds: np.ndarray, count: int, k: int
) -> tuple[np.float32, int]:
    """Keep the survivors whose upper bound reaches the k-th largest lower bound; return that, and how many they are."""
    if count < k:
        return np.float32(-np.inf), count
    threshold = kth_largest(lower_bounds[:count].copy(), k)
    n_kept = 0
    for i in range(count):
        if upper_bounds[i] >= threshold:
            survivors[n_kept] = survivors[i]
            lower_bounds[n_kept] = lower_bounds[i]
            upper_bounds[n_kept] = upper_bounds[i]
            n_kept += 1
    return threshold, n_kept


@jit
def _rank(stored: Stored, slots: IntArray, query: FloatArray, best: IntArray, best_scores: FloatArray) -> None:
    """Write the best of some slots and their exact scores, the largest first, and of equal ones the lower id."""
    scores = np.empty(len(slots))
    for i in range(len(slots)):
        scores[i] = inner_product(stored.vectors[slots[i]], query)
    k = len(best)
    least = kth_largest(scores.copy(), k) if len(scores) > k else -np.inf
    reaching = np.flatnonzero(scores >= least)
    # By id first, so that a stable sort by score leaves the lower id in front.
    reaching = reaching[np.argsort(stored.ids[slots[reaching]])]
    order = reaching[np.argsort(-scores[reaching], kind="mergesort")][:k]
    for i in range(len(order)):
        best[i] = slots[order[i]]
        best_scores[i] = scores[order[i]]


@inlined
def inner_product(vector: np.ndarray, query: FloatArray) -> float:
    """Return the inner product of a vector of 32 bits and a query of 64, summed in 64."""
    # Four sums side by side: one alone waits for each addition before the next. Their order is the score's definition.
    first = 0.0
    second = 0.0
    third = 0.0
    fourth = 0.0
    whole = len(query) - len(query) % 4
    for j in range(0, whole, 4):
        first += vector[j] * query[j]
        second += vector[j + 1] * query[j + 1]
        third += vector[j + 2] * query[j + 2]
        fourth += vector[j + 3] * query[j + 3]
    for j in range(whole, len(query)):
        first += vector[j] * query[j]
    return (first + second) + (third + fourth)

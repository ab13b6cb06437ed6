"""S33: the 500 best of 1,000,000 products by inner product: `Exact` and `IVF` beside a scan by BLAS, and faiss.

Products are of 2,000 kinds of Zipf sizes, with log-normal norms; queries are sums of one to three kinds, and noise.
Milliseconds are processor time of one core; `ZOOSIM_PRODUCTS` sets another number of products. Where torch finds a
graphics card, queries by the batch are searched there, too, in milliseconds that pass.
"""

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.core.devices import find_cards
from zoosim.retrieval import IVF, Exact

N = int(os.environ.get("ZOOSIM_PRODUCTS", "1000000"))
WIDTH, KINDS, BEST = 64, 2_000, 500
N_QUERIES, N_TIMED = 1_000, 40
SHARES = (0.03, 0.04, 0.05, 0.1)
"""Of the blocks of an `IVF` that are looked at."""
BATCHES = (1, 32, 1_000)
"""Queries that are searched at once beside a graphics card."""


def main() -> None:
    """Print time, recall and memory of each search, and what building and changing an index takes."""
    faiss.omp_set_num_threads(1)
    with threadpool_limits(1):
        vectors, queries = draw_products(np.random.default_rng(1000))
        exact = timed_build("Exact", lambda: Exact(np.arange(N), vectors))
        truth = exact.search(queries, BEST).ids
        blas_time = time_each(lambda query: search_by_blas(vectors, query), queries)
        print(
            f"S33 {N:,} products of {WIDTH} numbers, the {BEST} best: BLAS and a selection {blas_time:.2f} ms",
            flush=True,
        )
        check_exact(exact, vectors, queries)
        report("Exact", time_each(lambda query: exact.search(query, BEST), queries), blas_time)
        for share in (0.5, 0.1, 0.01):
            mask = np.random.default_rng(2).random(N) < share
            milliseconds = time_each(partial(exact.search, k=BEST, allowed=mask), queries)
            report(f"Exact, {share:.0%} allowed", milliseconds, blas_time)
        for device, name in find_cards().items():
            report_card(device, name, exact, vectors, queries)
        report_changes(exact, vectors)
        index = timed_build("IVF", lambda: IVF(np.arange(N), vectors))
        for share in SHARES:
            index.share = share
            milliseconds = time_each(lambda query: index.search(query, BEST), queries)
            report(
                f"IVF, {share:.0%} of the blocks",
                milliseconds,
                blas_time,
                recall(truth, index.search(queries, BEST).ids),
            )
        report_changes(index, vectors)
        report_faiss(vectors, queries, truth, blas_time)


def draw_products(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors `(N, WIDTH)` and queries `(N_QUERIES, WIDTH)`."""
    kinds = rng.normal(size=(KINDS, WIDTH)) / WIDTH**0.5
    sizes = 1 / np.arange(1, KINDS + 1)
    of_kind = rng.choice(KINDS, N, p=sizes / sizes.sum())
    vectors = kinds[of_kind].astype(np.float32)
    vectors += (0.5 / WIDTH**0.5 * rng.normal(size=(N, WIDTH))).astype(np.float32)
    vectors *= np.exp(0.35 * rng.normal(size=(N, 1))).astype(np.float32)
    queries = [kinds[rng.choice(KINDS, rng.integers(1, 4))].sum(axis=0) for _ in range(N_QUERIES)]
    return vectors, np.array(queries) + 0.3 / WIDTH**0.5 * rng.normal(size=(N_QUERIES, WIDTH))


def search_by_blas(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return what one writes in numpy: all scores, a selection, and the best sorted."""
    scores = vectors @ query.astype(np.float32)
    best = np.argpartition(scores, len(scores) - BEST)[-BEST:]
    return np.asarray(best[np.argsort(-scores[best])])


def search_by_faiss(index: Any, query: np.ndarray) -> np.ndarray:
    """Return the best that an index of faiss finds."""
    return np.asarray(index.search(query[None], BEST)[1])


def check_exact(exact: Exact, vectors: np.ndarray, queries: np.ndarray) -> None:
    """Print how many of the queries find what a plain search finds, each under a mask of its own."""
    rng = np.random.default_rng(3)
    n_equal = 0
    for query in queries:
        mask = rng.random(N) < rng.uniform(0, 1) ** 3
        scores = np.einsum("ij,j->i", vectors[mask], query, dtype=np.float64, casting="same_kind")
        n_found = min(BEST, len(scores))
        best = np.lexsort((np.flatnonzero(mask), -scores))[:n_found]
        found_ids = exact.search(query, BEST, mask).ids[0, :n_found]
        n_equal += np.array_equal(found_ids, np.flatnonzero(mask)[best])
    print(
        f"S33 Exact = a plain search, each query under a mask of its own: {n_equal:,} of {len(queries):,}", flush=True
    )


def time_each(search: Callable[..., object], queries: np.ndarray) -> float:
    """Return the median milliseconds of processor time of a search."""
    search(queries[0])
    milliseconds = []
    for query in queries[:N_TIMED]:
        began = time.process_time()
        search(query)
        milliseconds.append(1e3 * (time.process_time() - began))
    return float(np.median(milliseconds))


def report_card(device: str, name: str, exact: Exact, vectors: np.ndarray, queries: np.ndarray) -> None:
    """Print what a query takes on a graphics card, beside the processor and a product and a selection in torch."""
    import torch

    index = Exact(exact.ids, exact.vectors(exact.ids), device=device)
    sent = torch.from_numpy(vectors).to(device)

    def search_by_torch(batch: np.ndarray) -> np.ndarray:
        scores = torch.from_numpy(batch.astype(np.float32)).to(device) @ sent.T
        return np.asarray(scores.topk(BEST).indices.cpu())

    for count in BATCHES:
        batch = queries[:count]
        on_card, on_processor = index.search(batch, BEST), exact.search(batch, BEST)
        is_equal = all(np.array_equal(card, other) for card, other in zip(on_card, on_processor, strict=True))
        searches = {"Exact": lambda batch: index.search(batch, BEST), "torch alone": search_by_torch}
        times = [elapsed_each(search, batch) for search in searches.values()]
        processor_time = elapsed_each(lambda batch: exact.search(batch, BEST), batch)
        texts = [f"{way} {time:.3f} ms a query" for way, time in zip(searches, times, strict=True)]
        print(
            f"S33 {name}, {count:,} queries at once: {', '.join(texts)}, Exact on the processor {processor_time:.3f};"
            f" {processor_time / times[0]:.1f} times as fast, {'the same' if is_equal else 'NOT the same'} to the bit",
            flush=True,
        )


def elapsed_each(search: Callable[[np.ndarray], object], batch: np.ndarray) -> float:
    """Return the median milliseconds that pass for each query of a batch."""
    search(batch)
    milliseconds = []
    for _ in range(max(3, N_TIMED // len(batch))):
        began = time.perf_counter()
        search(batch)
        milliseconds.append(1e3 * (time.perf_counter() - began) / len(batch))
    return float(np.median(milliseconds))


def recall(truth: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the share of the true best that each query finds `(Q,)`."""
    return np.array([np.isin(best, found_ids).mean() for best, found_ids in zip(truth, ids, strict=True)])


def report(name: str, milliseconds: float, blas_time: float, recalls: np.ndarray | None = None) -> None:
    """Print a search's time, beside that of BLAS, and its recall."""
    times = blas_time / milliseconds
    line = f"S33 {name}: {milliseconds:.2f} ms, {1 / times:.2f} of BLAS, {times:.1f} times as fast"
    if recalls is not None:
        line += f"; recall at {BEST} {recalls.mean():.4f}, worst query {recalls.min():.3f}"
    print(line, flush=True)


def timed_build(name: str, build: Callable[[], Any]) -> Any:
    """Return an index; print what building it takes."""
    began = time.process_time()
    index = build()
    print(f"S33 {name}: built in {time.process_time() - began:.1f} s", flush=True)
    return index


def report_changes(index: Any, vectors: np.ndarray) -> None:
    """Print what it takes to add and remove products, to write the index and to read it; leave it as it was."""
    steps: dict[str, Callable[[], None]] = {
        "add 1": lambda: index.add([N], vectors[:1]),
        "remove 1": lambda: index.remove([N]),
        "add 20,000": lambda: index.add(N + np.arange(20_000), vectors[:20_000]),
        "remove 20,000": lambda: index.remove(N + np.arange(20_000)),
    }
    # The first that comes after building makes room for an eighth more.
    index.add([N], vectors[:1])
    index.remove([N])
    texts = []
    for name, step in steps.items():
        began = time.process_time()
        step()
        texts.append(f"{name} {1e3 * (time.process_time() - began):.0f} ms")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        began = time.process_time()
        index.save(path)
        texts.append(f"write {time.process_time() - began:.1f} s, {path.stat().st_size / 1e6:.0f} MB")
        began = time.process_time()
        type(index).load(path)
        texts.append(f"read {time.process_time() - began:.1f} s")
    print(f"S33 {type(index).__name__}: {', '.join(texts)}", flush=True)


def report_faiss(vectors: np.ndarray, queries: np.ndarray, truth: np.ndarray, blas_time: float) -> None:
    """Print faiss's own inverted file, by inner product and by distance with one coordinate more (Bachrach et al.)."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    augmented = np.column_stack([vectors, np.sqrt(squares.max() - squares)]).astype(np.float32)
    augmented_queries = np.column_stack([queries, np.zeros(len(queries))]).astype(np.float32)
    forms = {
        "inner product": (faiss.METRIC_INNER_PRODUCT, faiss.IndexFlatIP, vectors, queries.astype(np.float32)),
        "augmented": (faiss.METRIC_L2, faiss.IndexFlatL2, augmented, augmented_queries),
    }
    for name, (metric, make, items, asked) in forms.items():
        index = faiss.IndexIVFFlat(make(items.shape[1]), items.shape[1], 1_024, metric)
        index.train(items)
        index.add(items)
        for probes in (64, 128):
            index.nprobe = probes
            milliseconds = time_each(partial(search_by_faiss, index), asked)
            found_ids = index.search(asked, BEST)[1]
            report(f"faiss IVF1024,Flat, {name}, {probes} probes", milliseconds, blas_time, recall(truth, found_ids))

"""Training with torch that returns the same bits each time on the same kind of processor."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def seeded_torch(seed: int) -> Iterator[None]:
    """Let torch compute on one thread and draw from `seed`, so that it returns the same bits; then put both back."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def take_epoch(optimizer: Any, loss_of: Callable[[Any], Any], rows: Any, batch_size: int) -> float:
    """Take a step for each batch of the shuffled indices `rows`, a tensor; return the mean loss of the batches."""
    batches = rows.split(batch_size)
    total = 0.0
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(batch)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(batches)

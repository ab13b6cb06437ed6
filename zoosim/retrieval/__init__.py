"""Which of millions of products to look at: those with the largest inner product with a query."""

from zoosim.retrieval.exact import Exact
from zoosim.retrieval.index import Index, Matches
from zoosim.retrieval.ivf import IVF
from zoosim.retrieval.pool import CandidatePool, Candidates, PoolCap
from zoosim.retrieval.sources import NewArrivals, Popular, Retrieved, Source
from zoosim.retrieval.towers.retriever import Retriever

__all__ = [
    "IVF",
    "CandidatePool",
    "Candidates",
    "Exact",
    "Index",
    "Matches",
    "NewArrivals",
    "PoolCap",
    "Popular",
    "Retrieved",
    "Retriever",
    "Source",
]

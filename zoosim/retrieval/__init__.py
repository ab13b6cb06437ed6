"""Which of millions of products to look at: those with the largest inner product with a query."""

from zoosim.retrieval.exact import Exact
from zoosim.retrieval.index import Index, Matches
from zoosim.retrieval.ivf import IVF
from zoosim.retrieval.towers.retriever import Retriever

__all__ = ["IVF", "Exact", "Index", "Matches", "Retriever"]

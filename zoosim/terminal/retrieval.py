"""Printed retrievers: what they learned from, and what they find of later clicks."""

from typing import TYPE_CHECKING

from zoosim.terminal.output import print_lines, print_table

if TYPE_CHECKING:
    from zoosim.retrieval.towers.retriever import Retriever


def print_retriever(retriever: "Retriever", *, wide: bool = False) -> None:
    """Print what later rows say of a retriever and of plain rules."""
    print_lines([f"{retriever._headline()}."])
    for table in retriever._tables():
        print_table(table, wide=wide)

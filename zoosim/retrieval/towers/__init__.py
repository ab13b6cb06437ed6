"""Vectors of products and queries of visitors, learned from what a log showed: two towers and products of their own."""

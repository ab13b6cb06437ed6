"""How ill-conditioned a linear model's matrix may be."""

CONDITION = 1e7
"""The largest condition number of A = gram + lambda I up to which posteriors are promised to be right to 8 digits."""

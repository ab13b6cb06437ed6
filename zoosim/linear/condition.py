"""Where a ridge model keeps how near it is to singular, and how near it may come."""

HARD, NUMBER = range(2)
"""The columns of `Ridge.condition`: whether updates are hard, and the largest condition number of A so far."""

CONDITION, WORST = 1e10, 1e300
"""The largest condition number of A to which posteriors are promised to be right to 8 digits, and that is counted."""

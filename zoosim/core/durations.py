"""Lengths of time in microseconds, as the times of logs are, which count from 1970."""

MICROSECONDS = 1_000_000
"""Per second."""

HOUR = 3_600 * MICROSECONDS
DAY = 24 * HOUR

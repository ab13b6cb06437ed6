"""Retrievers trained on a log: judged by its later rows, beside plain rules."""

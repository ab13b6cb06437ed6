"""A rehearsal of policies in the shop that a log tells of, beside what the shop's own choices would earn there."""

"""A shop whose visitors come back, or not, by what they were shown; with its exact optimum."""

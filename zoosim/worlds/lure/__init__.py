"""A shop whose discounts lure visitors into what disappoints them, where boosts re-rank; with its exact optimum."""

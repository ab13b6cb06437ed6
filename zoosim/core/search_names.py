"""Names in a search shop: boost features, built-in rules, and libraries of templates."""

FEATURES = (
    "cm2",
    "discount",
    "private label",
    "user match",
    "bestseller",
    "price",
    "strategic cm2",
    "discount x price taste",
    "private label x label taste",
    "specificity x bestseller",
)
"""The ten boost features, in the order of an action."""

TEMPLATES = ("neutral", "cm2", "private-label", "popularity", "premium", "budget", "discount", "strategic")
"""The eight built-in rules, and the eight templates of the library `vectors`, by their number."""

LIBRARY_NAMES = ("rules", "rules-50", "vectors", "vectors-50")
"""The libraries that come with zoosim."""

SHOP = "shop"
"""Stands for the shop's own templates where a policy says which library it chooses among."""

MOST_TEMPLATES = 256
"""The most templates of a library."""

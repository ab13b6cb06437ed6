"""Rules of the shop: what may be shown to whom however good it seems, and what is always shown."""

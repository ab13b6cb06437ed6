"""The page of a service: what decides, what it earns, and whether all is well, live and in words."""

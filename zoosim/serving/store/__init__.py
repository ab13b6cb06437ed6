"""Where a service keeps its log."""

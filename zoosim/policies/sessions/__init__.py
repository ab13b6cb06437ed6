"""Policies that learn what a visitor brings from here on, not at this decision alone."""

"""Shadows: models that decide for nobody, and what they would have earned, in the process that learns."""

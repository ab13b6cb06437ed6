"""Forecasts in the log of a service: taken in with a model, and scored by what its decisions earned."""

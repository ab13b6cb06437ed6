"""Launches of models: shares that grow by plan while guardrails hold, and what is done when they do not."""

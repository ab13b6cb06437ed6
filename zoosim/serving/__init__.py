"""A policy behind an HTTP API: it decides, logs the exact probability of what it showed, and learns from feedback."""

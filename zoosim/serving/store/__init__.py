"""Stores for the log of a service."""

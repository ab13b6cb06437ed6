"""Endpoints of a service, by action space."""

"""Deterministic simulation of a service: whole days of several services, their log and their clients from one seed."""

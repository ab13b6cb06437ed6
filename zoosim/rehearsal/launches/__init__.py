"""Rehearsals of launches: a model is ramped by its plan, again and again, in shops that a log allows."""

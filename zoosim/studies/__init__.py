"""Comparisons of learners that do not fit into an experiment: `zoosim run continuous-vs-discrete`."""

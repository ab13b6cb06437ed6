"""Printed results of the command line: one file per kind of result, all by `output`."""

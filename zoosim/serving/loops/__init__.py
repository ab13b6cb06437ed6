"""Loops of one process: what runs one of them, the folder of several, and how they are added, removed and asked."""

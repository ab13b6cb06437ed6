"""Other libraries of bandits, as policies of the arena: the same visits, delays and candidates as for ours.

`python -m benchmarks.peers` compares them in shops and on tables. Each is set as its documentation says; what is worth
tuning is a parameter. They want the extra `peers`.
"""

"""A simulated shop whose visitors come to a running service over HTTP, in time that passes faster than the world's."""

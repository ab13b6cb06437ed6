"""Learning of a service's model from its log, by action space."""

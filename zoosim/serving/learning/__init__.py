"""How the model of a service learns from its log, for each action space."""

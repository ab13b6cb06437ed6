"""What a service does with requests, for each action space."""

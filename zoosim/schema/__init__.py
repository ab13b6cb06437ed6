"""How a shop's tables become features: types of columns, fitted once, one encoder from the log to the service."""

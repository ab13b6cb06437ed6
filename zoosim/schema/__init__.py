"""Features of a shop's tables: types of columns, fitted once, one encoder from the log to the service."""

"""Logs that may fool the verdict of `evaluate`, each with the true value of a policy; and sound ones beside them."""

"""What the command line prints when it is done: one file per kind of result, all by `output`."""

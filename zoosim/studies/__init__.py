"""Studies: one folder a question, with `measure`, which returns rows, and `tell`, which makes a story of them."""

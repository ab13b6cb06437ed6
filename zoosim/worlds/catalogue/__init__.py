"""A shop of up to millions of products with tastes and appeal of their own, of which one is shown at each visit."""

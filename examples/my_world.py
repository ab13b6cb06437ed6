"""A world of your own: visitors like some genres more than others, and the shelf changes at every visit.

Check it with `zoosim check-world examples/my_world.py:Bookshop`, and compare policies in it with
`zoosim run examples/my_world.py:Bookshop --seeds 10`.
"""

import numpy as np

import zoosim

GENRES = ("crime", "travel", "poetry")
LIKES = np.array([[0.30, 0.05, 0.02], [0.05, 0.25, 0.05], [0.02, 0.08, 0.35]])
"""Click probability of each kind of reader (row) for each genre (column)."""


class Bookshop(zoosim.World):
    """Show one of the books on today's shelf to each reader."""

    name = "bookshop"
    default_steps = 5_000
    n_books: int = zoosim.parameter(60, low=10, high=1_000, help="books in the shop")
    shelf: int = zoosim.parameter(8, low=2, high=50, help="books on the shelf at a visit")

    def __init__(self, seed: int, steps: int, **params: object) -> None:
        """Draw the genre of each book."""
        super().__init__(seed, steps, **params)
        self.genre = self.rng("books").integers(0, len(GENRES), self.n_books)
        self.features = np.eye(len(GENRES))[self.genre]

    def spec(self, steps: int) -> zoosim.PolicySpec:
        """Return how many features readers and books have."""
        return zoosim.PolicySpec(user_dim=len(LIKES), product_dim=len(GENRES), steps=steps)

    def arrive(self, step: int) -> tuple[int, int, np.ndarray]:
        """Draw who comes and which books are on the shelf: the visit's number, the kind of reader, the books."""
        rng = self.rng("visit", step)
        reader = int(rng.integers(len(LIKES)))
        books = rng.choice(self.n_books, self.shelf, replace=False)
        return step, reader, books

    def context(self, visit: tuple[int, int, np.ndarray]) -> zoosim.Context:
        """Return what the shop knows: the kind of reader, and the shelf."""
        step, reader, books = visit
        arrays = {
            "user": np.eye(len(LIKES))[reader],
            "product_ids": books.copy(),
            "products": self.features[books],
            "available": np.ones(self.shelf, np.bool_),
        }
        for array in arrays.values():
            array.setflags(write=False)
        return zoosim.Context(user_id=step, **arrays)

    def serve(self, visit: tuple[int, int, np.ndarray], action: int) -> zoosim.Outcome:
        """Return 1.0 for a click, else 0.0, by a draw for each book that does not depend on which one is shown."""
        step, reader, books = visit
        draws = self.rng("clicks", step).random(self.shelf)
        return zoosim.Outcome(float(draws[action] < LIKES[reader, self.genre[books[action]]]))

    def truth(self, visit: tuple[int, int, np.ndarray]) -> zoosim.Truth:
        """Return the click probability of each book on the shelf."""
        _, reader, books = visit
        return zoosim.truth_of_candidates(LIKES[reader, self.genre[books]])

    def all_products(self) -> zoosim.ProductList:
        """Return all books, so that runs can write logs."""
        return zoosim.ProductList(np.arange(self.n_books), self.features, tuple(GENRES[g] for g in self.genre))

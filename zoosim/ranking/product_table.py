"""The properties of a request's products, as contexts of a search shop hold them."""

from typing import NamedTuple

from zoosim.core.types import BoolArray, FloatArray, IntArray


class ProductTable(NamedTuple):
    """The K products of a request, in the order of its `product_ids`: one array `(K,)` for each property.

    `category` by number; `price` and `cm2` in EUR; `discount` in [0, 1]; `label` is 1 for a private label;
    `bestseller` a score of at least 0; `strategic` goods.
    """

    category: IntArray
    price: FloatArray
    cm2: FloatArray
    discount: FloatArray
    label: FloatArray
    bestseller: FloatArray
    strategic: BoolArray

    def rows(self, products: IntArray) -> "ProductTable":
        """Return the table of some products `(n,)`, by index, in new arrays."""
        return ProductTable(
            category=self.category[products],
            price=self.price[products],
            cm2=self.cm2[products],
            discount=self.discount[products],
            label=self.label[products],
            bestseller=self.bestseller[products],
            strategic=self.strategic[products],
        )

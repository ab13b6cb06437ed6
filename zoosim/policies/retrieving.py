"""The contract of policies that find their candidates themselves, in an index of products."""

from abc import abstractmethod

from zoosim.core.types import Context, Retrieval, RetrievedDecision
from zoosim.policies.base import Policy
from zoosim.retrieval import Index


class RetrievingPolicy(Policy):
    """A policy that retrieves its candidates and ranks them, in a cost that does not grow with each product.

    A request without products is about those of the index that `use_index` gave it. It may name ids that must not be
    shown, `barred (m,)`, and the `count` of products that its page has: none of the former is retrieved, and so many
    are, where there are. A request that brings products is answered among these alone, and leaves that index as it is.
    An index is no part of what was learned: it is given again to a policy that was loaded.
    """

    @property
    @abstractmethod
    def index(self) -> Index | None:
        """The index that requests without products are about; None where none was given."""

    @abstractmethod
    def use_index(self, index: Index) -> None:
        """Retrieve from an index of products' features from now on; to be called again where it changed.

        Raises:
            PolicyError: its vectors have another width than products' features.
        """

    @abstractmethod
    def retrieve(self, context: Context) -> Retrieval:
        """Return the candidates of a request and their probabilities, before anything is drawn; moves no state.

        Raises:
            PolicyError: the request is none, or there are no products.
        """

    @abstractmethod
    def decide(self, context: Context, draw: float | None = None) -> RetrievedDecision:
        """Draw a product with all that a log has to say of it.

        Args:
            context: The request: `user`, and `product_ids`, `products` and `available` where it brings them.
            draw: A number in [0, 1) that settles the draw. Default: the policy's next.

        Raises:
            PolicyError: the request or the draw is none, or there are no products.
        """

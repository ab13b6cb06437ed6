"""Learn from the clicks and purchases of searches."""

import numpy as np

from zoosim.policies.boost_model import BoostModel
from zoosim.serving.events import SearchDecision, unpack_floats
from zoosim.serving.join import Closing, SearchJoin
from zoosim.serving.learning.base import Learning


class SearchLearning(Learning):
    """Learns from each search as a whole."""

    join = SearchJoin

    def teach(self, choice: SearchDecision, closing: Closing) -> None:
        """Update the policy with the places of a ranking that were clicked and bought."""
        model = self._arm.model
        assert isinstance(model, BoostModel)
        scores = unpack_floats(choice.scores).tolist()
        request = model.request(choice.visitor, dict(zip(choice.products, scores, strict=True)))
        places = np.arange(len(choice.ranking))
        clicks = np.isin(places, closing.clicked).astype(float)
        purchases = np.isin(places, closing.purchased).astype(float)
        model.learn_shown(request, unpack_floats(choice.boosts), np.array(choice.ranking), clicks, purchases)

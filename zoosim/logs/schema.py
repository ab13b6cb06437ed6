"""The schema of a log: one row per interaction, the same whether a world, a run or a service writes it.

Columns: `decision_id` (str), `time` (UTC; simulated worlds count one second a visit from 1970), `user_id`, `user`
(list of float, the context features), `catalogue` (hash of the product table beside the log), `candidates` (list of the
products that could be shown) or `unavailable` (of those that could not), `action`, `product_id`, `position`,
`propensity`, `reward`, `click`, `policy`, `policy_version`, `seed`, `step`; of a service `arm`, `model` and
`arm_propensity`, that of the arm, where `propensity` is that before the arm was drawn. In a search shop `click` counts
the clicks of a visit, and `gmv`, `cm2`, `strategic`, `rank_change`, `purchases` and `exposure` follow it. The schema's
version stands in the file's metadata.

Where visitors come back, `visitor`, `visit` and `step` number the visitor, the visitor's visits and the visitor's
decisions, `ended` says that the visitor then had gone for good, and `censored` that the world or the log ends there, so
that nobody knows. Else `step` numbers the visits of the run.

A row that lists `candidates` of products may say how likely each was, `candidate_propensities` (list of float, in the
same order; they add up to 1, and that of the action is `propensity`). Where a source of candidates stands beside the
policy, such as a retrieval or a pool that is drawn from for exploration, `source` names it, `source_version` says which
one (of a model or an index), and `source_propensity` is the probability with which this decision took its candidates
from it. `propensity` is then that of the action given the candidates; with `source_propensity` it multiplies to that of
source and action together. A source may draw its candidates; `source_propensity` is then that of these ones.
`source_products` (optional) counts the products that could be shown, whatever the source proposed; 0 for unknown.
`marginal_propensity` (optional) is the probability of the action wherever its candidates may have come from: what a
policy that looks at other candidates is weighed by.

The action space says what `action` and `propensity` hold:
    products   the index of a candidate, and its probability
    rankings   as products, in one row per position: rows of a visit share `decision_id`, `position` counts from the
               top, `propensity` is given those above, `marginal_propensity` (optional) is not
    boosts     a list of numbers from -`a_max` to `a_max` (a column), and their density
"""

SCHEMA_VERSION = 1
REQUIRED = ("action", "reward")
LISTED = ("candidates", "unavailable")
"""The columns that list products, of which a log has one or none: what could be shown, or what could not."""

LIFE = ("visitor", "visit", "step", "ended", "censored")
"""The columns of a log of visitors who come back; `step` stands in logs of other worlds, too."""

CANDIDATE_PROPENSITIES = "candidate_propensities"
"""The column with the probability of each of a row's `candidates`."""

SOURCE = ("source", "source_version", "source_propensity")
"""The columns that say where candidates came from, read where a log has all three."""

SOURCE_PRODUCTS = "source_products"
"""The column that counts the products that could be shown, beside those three."""

READ = (
    *("decision_id", "time", "user_id", "user", "catalogue", *LISTED, CANDIDATE_PROPENSITIES, *SOURCE, SOURCE_PRODUCTS),
    *("position", "propensity", *REQUIRED, *LIFE),
)
"""The columns that training and evaluation read."""

OWN = {*READ, "product_id", "policy", "policy_version", "seed", "arm_propensity"} - {*LIFE, *SOURCE[:2]} | {"step"}
"""The columns whose meaning is fixed; other numbers of a log may serve as target probabilities.

Those of visitors who come back are read only where all are there, and `step` is one of them: an import has never all.
"""

A_MAX = "a_max"
LEAST_DENSITY, LARGEST_DENSITY = 1e-60, 1e60
"""Beyond these, sums of fourth powers of weights overflow, or come to 0."""

MARGINAL = "marginal_"
"""`marginal_propensity` is the log's own; `marginal_NAME` belongs to target probabilities in the column NAME."""

OWN_MARGINAL = f"{MARGINAL}propensity"

CANDIDATES = "candidates"
"""The key of a catalogue's metadata that counts the candidates, its first rows; the others no row shows or lists."""

REWARDS = "rewards"
"""The key of a log file's metadata that lists its rewards by name, the columns beside `reward`, their weighted sum."""

ACTION_SPACE = "action_space"
"""The key of a log file's metadata that names its action space; where it is missing, the column `action` tells."""

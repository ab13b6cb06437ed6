"""The schema of a log: one row per interaction, the same whether a world, a run or a service writes it.

Columns: `decision_id` (str), `time` (UTC; simulated worlds count one second a visit from 1970), `user_id`, `user`
(list of float, the context features), `catalogue` (hash of the product table beside the log), `unavailable` (list of
the products that could not be shown), `action`, `product_id`, `position`, `propensity`, `reward`, `click`, `policy`,
`policy_version`, `seed`, `step`. In a search shop `click` counts the clicks of a visit, and `gmv`, `cm2`, `strategic`,
`rank_change`, `purchases` and `exposure` follow it. The schema's version stands in the file's metadata.
"""

SCHEMA_VERSION = 1
MICROSECONDS = 1_000_000
"""How many make a second: a simulated visit takes one."""

"""Values of policies by the logs of services that served several models at once, against the truth (half an hour).

Do the logged probabilities, of the whole mixture that was served, judge policies that were served and those that
were not?
"""

from studies.served_values.measuring import measure
from studies.served_values.page import build_page

__all__ = ["build_page", "measure"]

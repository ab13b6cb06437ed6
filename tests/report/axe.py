"""What axe-core, in the version that the development extra brings, says keeps people from using a page."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.report.browser import Browser

RUN = """
axe.run(document, {resultTypes: ["violations"]}).then(({violations}) =>
  violations.flatMap(each => each.nodes.map(node => `${each.id}: ${node.html.slice(0, 120)}`)))
"""


def violations(browser: Browser) -> list[str]:
    """Return what is wrong with the page that is open, a line each; skips the test where there is no axe-core."""
    browser.run(_script())
    lines: list[str] = browser.run(RUN)
    return lines


@cache
def _script() -> str:
    package = find_spec("axe_core_python")
    if package is None or package.origin is None:
        pytest.skip("needs axe-core, which the extra dev brings")
    return f"{Path(package.origin).with_name('axe.min.js').read_text(encoding='utf-8')}; null"

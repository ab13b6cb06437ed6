"""One running service without a model, which all tests here share."""

from collections.abc import Iterator

import pytest

from tests.serving.process import ServiceProcess, serving

KEY = "a key of the tests"


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with serving(tmp_path_factory.mktemp("personalizer") / "store", None, key=KEY, most_delay=10.0) as process:
        yield process

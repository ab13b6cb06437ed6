"""The public JavaScript clients, unchanged, against a running service."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serving.personalizer.conftest import KEY
from tests.serving.personalizer.requests import MULTI_SLOT, rank_request, service_configuration, slots_request
from tests.serving.process import ServiceProcess

HERE = Path(__file__).parent / "node"
INSTALLING, CALLING = 120, 60
"""Seconds that npm, and the calls, may take."""


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the clients beside a copy of the calls; skip where there is no node, or no registry."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node or npm is not installed")
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "package-lock.json", "clients.js"):
        shutil.copy(HERE / name, folder)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALLING)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install the clients in {INSTALLING} s")
    if done.returncode:
        pytest.skip(f"npm could not install the clients: {done.stderr.strip()[-200:]}")
    return folder


def test_the_calls_of_both_clients(service: ServiceProcess, clients: Path) -> None:
    requests = {
        "rank": rank_request(),
        "slots": slots_request(),
        "multiSlot": MULTI_SLOT,
        "configuration": service_configuration(),
    }
    command = ["node", "clients.js", service.url, KEY, json.dumps(requests)]
    done = subprocess.run(
        command,
        cwd=clients,
        capture_output=True,
        text=True,
        timeout=CALLING,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    )
    assert not done.returncode, done.stderr

"""The Node client with the packages of its lock file in place."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator

import pytest

from tests.integration.node_client.process import FOLDER, NodeClient

INSTALL_LIMIT_S = 240


@pytest.fixture(scope="session")
def node_packages() -> None:
    """Installs them when they are missing or older than the lock file."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    lock, record = FOLDER / "package-lock.json", FOLDER / "node_modules" / ".package-lock.json"
    if not record.exists() or record.stat().st_mtime < lock.stat().st_mtime:
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=FOLDER, check=True, timeout=INSTALL_LIMIT_S)


@pytest.fixture
async def node(node_packages: None) -> AsyncIterator[NodeClient]:
    """Runs the client; what still runs at the end of a test is ended."""
    client = NodeClient()
    yield client
    await client.close()

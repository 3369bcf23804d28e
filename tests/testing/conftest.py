from __future__ import annotations

import pytest

from tests import servers


@pytest.fixture(scope="session")
def howdah_dsn(shared_server: servers.Server) -> str:
    """As a project that brings a server of its own; one test starts the embedded one."""
    return shared_server.dsn

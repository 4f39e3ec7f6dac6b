"""Real processes that serve the embedded pair in float32, one thread each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outrider.testing.processes import Services, running_services

EXACT = {"model": "embedded", "dtype": "float32", "threads": "1"}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("services")
    # A draft that is late on a busy machine would change what a seeded request draws.
    patient = {"draft_timeout_ms": "30000", "target_wait_s": "5"}
    with running_services(folder, target=EXACT, draft=EXACT, coordinator=patient) as services:
        yield services

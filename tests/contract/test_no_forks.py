"""No process of a service is a fork of another: a fork after gRPC has begun may hang for ever."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("outrider", "coordinator", "draft_service", "target_service")
FORKING_MODULES = {"multiprocessing", "pty", "concurrent.futures.process"}
FORKING_CALLS = {"fork", "forkpty", "posix_spawn", "ProcessPoolExecutor"}
FORKING_OWNERS = {"os", "futures"}


def forks(source: str) -> Iterator[str]:
    """What in a module forks, or runs Python between fork and exec."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in FORKING_MODULES)
        elif isinstance(node, ast.ImportFrom):
            names = {node.module or "", *(one.name for one in node.names)}
            yield from names & (FORKING_MODULES | FORKING_CALLS)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if owner in FORKING_OWNERS and node.attr in FORKING_CALLS:
                yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.keyword) and node.arg == "preexec_fn":
            yield node.arg


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_forks(package: str) -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in (ROOT / package).rglob("*.py")
        if (names := sorted(forks(path.read_text())))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import multiprocessing",
        "from multiprocessing import Process",
        "import os\nos.fork()",
        "from os import fork",
        "from concurrent.futures import ProcessPoolExecutor",
        "from concurrent import futures\nfutures.ProcessPoolExecutor()",
        "import subprocess\nsubprocess.Popen(['a'], preexec_fn=print)",
    ],
)
def test_a_fork_would_be_found(source: str) -> None:
    assert list(forks(source))

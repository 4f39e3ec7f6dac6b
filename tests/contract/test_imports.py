"""Law 7: who may import whom, read from the source and tried in fresh processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINTER = Path(sys.executable).parent / "lint-imports"

IMPORT_ALL = """
import importlib, pkgutil, sys

packages, blocked = (argument.split(",") for argument in sys.argv[1:])

class Absent:
    def find_spec(self, name, path=None, target=None):
        if any(name == root or name.startswith(root + ".") for root in blocked):
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)

sys.meta_path.insert(0, Absent())
for package in packages:
    module = importlib.import_module(package)
    for found in pkgutil.walk_packages(getattr(module, "__path__", []), package + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
print(len(sys.modules))
"""

SHARED = "outrider.rpc,outrider.settings,outrider.errors,outrider.logs,outrider.telemetry"
WORKER_EXTRA = "torch,transformers,safetensors,gguf,numpy"


def check_contracts(*arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    command = [str(LINTER), "--no-logo", "--cache-dir", str(cache), *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )


def import_all(packages: str, *, without: str) -> subprocess.CompletedProcess[str]:
    """Imports every module of `packages` in a new process where `without` cannot be imported."""
    command = [sys.executable, "-c", IMPORT_ALL, packages, without]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_import_contracts_hold(tmp_path: Path) -> None:
    done = check_contracts(cache=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


def test_import_contracts_can_break(tmp_path: Path) -> None:
    """The linter sees imports at all: this one is there."""
    config = tmp_path / "contracts.toml"
    config.write_text(
        """
        [tool.importlinter]
        root_packages = ["outrider", "coordinator"]
        include_external_packages = true

        [[tool.importlinter.contracts]]
        name = "The coordinator does without a network"
        type = "forbidden"
        source_modules = ["coordinator"]
        forbidden_modules = ["grpc"]
        """
    )

    done = check_contracts(str(config), cache=tmp_path)

    assert done.returncode == 1
    assert "BROKEN" in done.stdout


@pytest.mark.parametrize(
    ("packages", "without"),
    [
        (f"coordinator,{SHARED}", f"{WORKER_EXTRA},outrider.engine,outrider.worker"),
        ("outrider.cli", WORKER_EXTRA),
        ("outrider.engine", "grpc,outrider.v1,outrider.rpc,outrider.worker"),
        ("draft_service", "coordinator,target_service"),
        ("target_service", "coordinator,draft_service"),
    ],
    ids=["coordinator", "cli", "engine", "draft", "target"],
)
def test_packages_do_without(packages: str, without: str) -> None:
    done = import_all(packages, without=without)

    assert done.returncode == 0, done.stderr


def test_a_missing_package_is_noticed() -> None:
    done = import_all("coordinator", without="grpc")

    assert done.returncode != 0
    assert "grpc is not installed here" in done.stderr

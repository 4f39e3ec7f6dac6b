"""Build hook: generates `outrider/v1` from `protos/outrider/v1`.

Run as a program (`python hatch_build.py`) it does the same in a working tree.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
PACKAGE_DOC = '"""Stubs of the contract, generated from protos/outrider/v1 by the build."""\n'


def generate_stubs(root: Path) -> None:
    """Writes messages, service stubs and their types for every proto file below `root`."""
    import grpc_tools
    from grpc_tools import protoc

    protos = root / "protos"
    sources = sorted(str(path) for path in (protos / "outrider" / "v1").glob("*.proto"))
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    plugins = [
        f"--plugin=protoc-gen-{name}={found}"
        for name in ("mypy", "mypy_grpc")
        if (found := shutil.which(f"protoc-gen-{name}", path=_script_path()))
    ]
    typed = [f"--mypy_out={root}", f"--mypy_grpc_out={root}"] if len(plugins) == 2 else []
    arguments = [
        "protoc",
        f"-I{protos}",
        f"-I{well_known}",
        f"--python_out={root}",
        f"--grpc_python_out={root}",
        *plugins,
        *typed,
        *sources,
    ]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc failed: see its messages above")
    (root / "outrider" / "v1" / "__init__.py").write_text(PACKAGE_DOC)


def _script_path() -> str:
    """Where console scripts of the running interpreter lie, then the usual search path."""
    import os

    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


class StubsBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before every build, editable ones included."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate_stubs(Path(self.root))


if __name__ == "__main__":
    generate_stubs(ROOT)

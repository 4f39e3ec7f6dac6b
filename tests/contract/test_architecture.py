"""ARCHITECTURE.md has one line for each module, and names no file that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("coordinator", "draft_service", "target_service", "outrider")


def modules() -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py" and "v1" not in path.parts
    }


def listed() -> list[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return re.findall(r"^\| `([\w/]+\.py)` \|", text, re.MULTILINE)


def test_every_module_has_its_line() -> None:
    assert modules() - set(listed()) == set()


def test_every_line_has_its_module() -> None:
    assert set(listed()) - modules() == set()
    assert len(listed()) == len(set(listed()))


def test_every_path_that_is_named_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`((?:coordinator|\w+_service|outrider|tests|protos)/[\w/.]+)`", text))
    assert {path for path in named if not (ROOT / path).exists()} == set()

"""`outrider demo` to its end."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import TinyFolders


def demo(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "outrider", "demo", *flags],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_tiny_pair_ends_with_the_table_and_equal_outputs(tiny_folders: TinyFolders) -> None:
    done = demo(*tiny_folders.flags, "--max-new-tokens", "24")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    for task in ("code", "explanation", "story"):
        assert rows[task].rstrip().endswith("equal")
        assert "×" in rows[task]
    assert "×" in rows["median"]
    assert "3 of 3 greedy outputs are equal" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_without_a_chat_template_and_with_sampling(tiny_folders: TinyFolders) -> None:
    template = tiny_folders.target / "chat_template.jinja"
    text = template.read_text()
    template.unlink()
    try:
        done = demo(*tiny_folders.flags, "--max-new-tokens", "8", "--temperature", "1")
    finally:
        template.write_text(text)
    assert done.returncode == 0, done.stderr
    assert "same distribution" in done.stdout


@pytest.mark.embedded
def test_the_embedded_pair_speculates() -> None:
    done = demo("--max-new-tokens", "24")
    assert done.returncode == 0, done.stderr
    assert "median" in done.stdout
    assert "not usable" not in done.stderr

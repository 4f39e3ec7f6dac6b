"""Compiled code is kept where it survives a restart, unless somebody says another place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

from outrider.engine.compiler import CACHE_VARIABLE, keep_compiled_in


def test_the_default_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (default_cache_dir(), None):
        monkeypatch.delenv(CACHE_VARIABLE, raising=False)
        if before:
            monkeypatch.setenv(CACHE_VARIABLE, before)
        keep_compiled_in(tmp_path)
        assert os.environ[CACHE_VARIABLE] == str(tmp_path)


def test_what_the_environment_says_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "/elsewhere")
    keep_compiled_in(tmp_path)
    assert os.environ[CACHE_VARIABLE] == "/elsewhere"

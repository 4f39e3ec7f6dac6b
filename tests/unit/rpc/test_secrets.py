"""What objects that hold secrets show of themselves: in logs, tracebacks and error messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.cli.bench_run import BenchRun
from outrider.rpc.api_keys import KeyHolders, key_line
from outrider.rpc.tls import TlsMaterial
from outrider.rpc.watched_files import FilesError, WatchedFiles

SECRET = "or-" + "s" * 43


def test_keys_do_not_show(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(key_line("team", SECRET) + "\n")
    digest = key_line("team", SECRET).partition(":")[2]
    made: list[Any] = [
        KeyHolders(file),
        WatchedFiles([file], file.read_text),
        TlsMaterial(b"certificate", SECRET.encode(), b"authority"),
        BenchRun(
            plan=None,  # type: ignore[arg-type]
            prompts=[],
            prompt_words="",
            sampling=None,  # type: ignore[arg-type]
            json_file=file,
            command="outrider bench",
            api_key=SECRET,
        ),
    ]
    for one in made:
        for secret in (SECRET, digest):
            assert secret not in repr(one)
            assert secret not in str(one)


def test_a_line_that_is_a_key_is_not_quoted(tmp_path: Path) -> None:
    """Somebody puts the key itself where its SHA-256 belongs."""
    file = tmp_path / "keys"
    file.write_text(f"team:{SECRET}\n")
    with pytest.raises(FilesError) as caught:
        KeyHolders(file)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__

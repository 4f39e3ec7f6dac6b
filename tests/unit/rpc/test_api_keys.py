"""Files of keys: what they may hold, and how they are followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog

from outrider.errors import Unauthenticated
from outrider.rpc import watched_files
from outrider.rpc.access import Caller
from outrider.rpc.api_keys import KeyHolders, key_line, key_metadata, read_keys
from outrider.rpc.watched_files import FilesError

A, B = "or-" + "a" * 43, "or-" + "b" * 43


class Call:
    """Stands for the context of a call with some metadata."""

    def __init__(self, *metadata: tuple[str, str | bytes]) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> Any:
        return self._metadata


def admitted(holders: KeyHolders, *metadata: tuple[str, str | bytes]) -> Caller | None:
    try:
        return holders.admit(Call(*metadata))  # type: ignore[arg-type]
    except Unauthenticated:
        return None


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(watched_files, "LOOK_INTERVAL_S", 0.0)
    path = tmp_path / "keys"
    path.write_text(f"# of team a\n\n  {key_line('a', A)}  \n")
    return path


def test_a_file_has_a_line_for_each_key(file: Path) -> None:
    file.write_text(f"{key_line('a', A)}\n# gone\n{key_line('b', B)}\r\n{key_line('a', A)}")
    assert sorted(read_keys(file).values()) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "no key"),
        ("# nothing\n", "no key"),
        (f"{key_line('a', A)}\n{A}\n", "line 2"),
        (f"a:{A}", "line 1"),
        (f"{key_line('a', A)[:-1]}", "line 1"),
        (f"{key_line('a', A).upper()}", "line 1"),
        (f":{'0' * 64}", "line 1"),
        (f"a b:{'0' * 64}", "line 1"),
        (f"{key_line('a', A)}\n{key_line('b', A)}", "line 2"),
        (b"\xff\xfe", "text"),
    ],
)
def test_a_broken_file_is_told_by_line_and_never_quoted(
    file: Path, content: str | bytes, told: str
) -> None:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(FilesError, match=told) as caught:
        read_keys(file)
    assert A not in str(caught.value)
    assert key_line("a", A) not in str(caught.value)
    with pytest.raises(FilesError):
        KeyHolders(file)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match="cannot be read"):
        KeyHolders(tmp_path / "none")


@pytest.mark.parametrize(
    "metadata",
    [
        (("authorization", f"Bearer {A}"),),
        (("x", "y"), ("authorization", f"bearer  {A}")),
        key_metadata(A),
    ],
)
def test_a_holder_is_its_tenant(file: Path, metadata: Any) -> None:
    assert admitted(KeyHolders(file), *metadata) == Caller(name="a", tenant="a")


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        key_metadata(""),
        key_metadata(B),
        key_metadata(A[:-1]),
        key_metadata(A + "x"),
        key_metadata(key_line("a", A)),
        key_metadata(key_line("a", A).partition(":")[2]),
        (("authorization", A),),
        (("authorization", f"Basic {A}"),),
        (("authorization", f"Bearer {A} {A}"),),
        (("authorization", "Bearer "),),
        (("authorization-bin", f"Bearer {A}".encode()),),
        (*key_metadata(A), *key_metadata(B)),
        (*key_metadata(B), *key_metadata(A)),
    ],
)
def test_anything_else_is_refused_in_the_same_words(file: Path, metadata: Any) -> None:
    holders = KeyHolders(file)
    with pytest.raises(Unauthenticated) as nothing:
        holders.admit(Call())  # type: ignore[arg-type]
    with pytest.raises(Unauthenticated) as caught:
        holders.admit(Call(*metadata))  # type: ignore[arg-type]
    assert str(caught.value) == str(nothing.value)
    assert caught.value.metadata == nothing.value.metadata


def test_keys_come_and_go_with_the_file(file: Path) -> None:
    holders = KeyHolders(file)
    assert admitted(holders, *key_metadata(B)) is None
    file.write_text(f"{key_line('a', A)}\n{key_line('b', B)}\n")
    assert admitted(holders, *key_metadata(B)) == Caller("b", "b")
    file.with_name("next").write_text(f"{key_line('b', B)}\n")
    file.with_name("next").rename(file)
    assert admitted(holders, *key_metadata(A)) is None
    assert admitted(holders, *key_metadata(B)) == Caller("b", "b")


@pytest.mark.parametrize("content", ["", f"{key_line('a', A)}\noops {B}\n", None])
def test_a_broken_file_leaves_the_keys_as_they_were(file: Path, content: str | None) -> None:
    holders = KeyHolders(file)
    file.unlink()
    if content is not None:
        file.write_text(content)
    with structlog.testing.capture_logs() as events:
        for _ in range(3):
            assert admitted(holders, *key_metadata(A)) == Caller("a", "a")
    (told,) = events
    assert told["log_level"] == "error"
    assert B not in str(told)
    file.write_text(f"{key_line('b', B)}\n")
    assert admitted(holders, *key_metadata(B)) == Caller("b", "b")


def test_a_look_at_the_file_is_not_taken_for_every_call(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_files, "LOOK_INTERVAL_S", 3600.0)
    holders = KeyHolders(file)
    file.write_text(f"{key_line('b', B)}\n")
    assert admitted(holders, *key_metadata(A)) == Caller("a", "a")

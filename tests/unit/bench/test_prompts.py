"""Prompts: those built in, and files with every fault a line can have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from outrider.bench.prompts import (
    EDITING,
    KINDS,
    Message,
    Prompt,
    PromptFileError,
    built_in,
    read_prompts,
)
from outrider.v1 import generation_pb2


def test_there_are_enough_of_each_kind_and_no_two_alike() -> None:
    prompts = built_in()
    counts = Counter(prompt.kind for prompt in prompts)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= 8
    assert len(set(prompts)) == len(prompts)


def test_any_few_are_a_mixture() -> None:
    assert [prompt.kind for prompt in built_in(["story", "code"])[:4]] == [
        "story",
        "code",
        "story",
        "code",
    ]


def test_a_file_has_texts_and_chats(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(
        '{"prompt": "Grüße"}\r\n\n'
        '{"messages": [{"role": "system", "content": "Be short."},'
        ' {"role": "user", "content": "Hi"}], "kind": "greeting"}'
    )
    first, second = read_prompts(path)
    assert first == Prompt("file", (Message("user", "Grüße"),))
    assert second.kind == "greeting"
    request = generation_pb2.GenerateRequest()
    second.put_chat(request)
    assert [message.role for message in request.chat.messages] == [
        generation_pb2.CHAT_ROLE_SYSTEM,
        generation_pb2.CHAT_ROLE_USER,
    ]
    second.put_text(request)
    assert request.text == "Be short.\n\nHi"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "object"),
        ("{}", "one of"),
        ('{"prompt": "a", "messages": []}', "one of"),
        ('{"prompt": ""}', "not empty"),
        ('{"prompt": 3}', "not empty"),
        ('{"prompt": "a", "kind": ""}', '"kind"'),
        ('{"promt": "a"}', '"promt"'),
        ('{"messages": []}', "at least one"),
        ('{"messages": "Hi"}', "at least one"),
        ('{"messages": [{"role": "user"}]}', '"content"'),
        ('{"messages": [{"role": "tool", "content": "x"}]}', "system, user, assistant"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "fine"}\n\n' + line + '\n{"prompt": "fine"}\n')
    with pytest.raises(PromptFileError) as caught:
        read_prompts(path)
    assert "mine.jsonl, line 3:" in str(caught.value)
    assert complaint in str(caught.value)


def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b'{"prompt": "fine"}\n{"prompt": "\xff"}\n')
    with pytest.raises(PromptFileError, match="line 2: not UTF-8"):
        read_prompts(path)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_prompts_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text(text)
    with pytest.raises(PromptFileError, match="no prompt"):
        read_prompts(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PromptFileError, match=r"gone\.jsonl"):
        read_prompts(tmp_path / "gone.jsonl")


def test_editing_has_prompts_too_but_is_asked_for_by_name() -> None:
    editing = built_in([EDITING])
    assert len(editing) >= 8
    assert all(len(prompt.messages[0].content) > 250 for prompt in editing), "long copies"
    assert EDITING not in {prompt.kind for prompt in built_in()}

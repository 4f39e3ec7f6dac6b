"""What is held out is never learnt from."""

from __future__ import annotations

import json
from pathlib import Path

from outrider.distill.apart import apart, prompts_apart
from outrider.distill.plan import DistillPlan


def plan(tmp_path: Path, **files: Path) -> DistillPlan:
    return DistillPlan(out=tmp_path / "draft", work=tmp_path / "work", **files)


def prompt_file(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    return path


def test_what_comes_often_is_held_out_or_learnt_from_and_never_both() -> None:
    items = [number % 100 for number in range(400)]
    aside, others = apart(items, most=48, seed=3)
    assert len(aside) == len(set(aside)) == 5
    assert not set(aside) & set(others)
    assert sorted(others) == sorted(item for item in items if item not in aside)
    assert apart(items, most=2, seed=3)[0] == aside[:2]
    assert apart(items, most=0, seed=3)[0] == []
    assert apart([7, 7, 7], most=48, seed=3) == ([], [7, 7, 7])


def test_prompts_of_a_file_of_their_own_are_taken_from_the_others(tmp_path: Path) -> None:
    prompts = prompt_file(tmp_path / "prompts.jsonl", ["one", "two", "two", "three"])
    held_out = prompt_file(tmp_path / "held_out.jsonl", ["two", "four", "two"])
    aside, others = prompts_apart(plan(tmp_path, prompts=prompts, held_out=held_out))
    assert [one.messages[0].content for one in aside] == ["two", "four"]
    assert [one.messages[0].content for one in others] == ["one", "three"]
    assert prompts_apart(plan(tmp_path)) == ([], [])

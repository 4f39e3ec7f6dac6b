"""A teaching whose end is moved goes on from the furthest place that allows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from outrider.distill.distillation import Distillation
from outrider.distill.errors import DistillError
from tests.integration.distill.tiny_distillation import Heard, plan, save_target

PLANNED = 6000


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_target(tmp_path_factory.mktemp("target") / "tiny")


class Stopping(Heard):
    """Notes how far each batch came; from `at` tokens on it is stopped as by Ctrl-C."""

    def __init__(self, at: int | None = None) -> None:
        super().__init__()
        self.at = at
        self.steps: list[int] = []

    def done(self, what: str, tokens: int, of: int) -> None:
        super().done(what, tokens, of)
        if what == "learnt":
            self.steps.append(tokens)
            if self.at is not None and tokens >= self.at:
                raise KeyboardInterrupt


def distil(
    tmp_path: Path, target: Path, tokens: int, *, stop_at: int | None = None, **changes: Any
) -> Stopping:
    heard = Stopping(stop_at)
    made = plan(target, tmp_path / "draft", tokens=tokens, **changes)
    distillation = Distillation(made, cache_dir=tmp_path / "cache", events=heard)
    if stop_at is None:
        distillation.run()
    else:
        with pytest.raises(KeyboardInterrupt):
            distillation.run()
    return heard


def checkpoint(tmp_path: Path, name: str) -> dict[str, Any]:
    path = tmp_path / "draft-work" / "checkpoints" / f"{name}.safetensors"
    with safe_open(path, framework="pt") as file:
        state: dict[str, Any] = json.loads(file.metadata()["state"])
    return state


def weights(tmp_path: Path) -> bytes:
    return (tmp_path / "draft" / "model.safetensors").read_bytes()


def test_what_was_learnt_after_the_end_was_moved_is_not_learnt_again(
    tmp_path: Path, target: Path
) -> None:
    distil(tmp_path, target, PLANNED)
    stopped = distil(tmp_path, target, 4 * PLANNED, stop_at=2 * PLANNED)
    assert stopped.steps[0] < PLANNED, "it went on from where steps were still large"
    more = distil(tmp_path, target, 6 * PLANNED)
    assert more.steps[0] > stopped.steps[-1]


def test_a_look_with_few_tokens_changes_nothing_on_disk(tmp_path: Path, target: Path) -> None:
    distil(tmp_path, target, PLANNED)
    before, kept = weights(tmp_path), checkpoint(tmp_path, "last")
    for tokens in (PLANNED // 10, PLANNED):
        assert distil(tmp_path, target, tokens).steps == []
        assert checkpoint(tmp_path, "last") == kept
        assert weights(tmp_path) == before


def test_an_end_that_is_passed_already_is_refused_where_steps_are_still_large(
    tmp_path: Path, target: Path
) -> None:
    distil(tmp_path, target, PLANNED)
    distil(tmp_path, target, 4 * PLANNED, stop_at=PLANNED + 1500)
    before, kept = weights(tmp_path), checkpoint(tmp_path, "last")
    made = plan(target, tmp_path / "draft", tokens=PLANNED)
    with pytest.raises(DistillError, match="--tokens"):
        Distillation(made, cache_dir=tmp_path / "cache", events=Heard()).run()
    assert (weights(tmp_path), checkpoint(tmp_path, "last")) == (before, kept)


def test_where_steps_were_still_large_is_kept_before_they_shrink(
    tmp_path: Path, target: Path
) -> None:
    cools_from = PLANNED - PLANNED // 4
    stopped = distil(tmp_path, target, PLANNED, stop_at=cools_from)
    assert stopped.steps[-1] >= cools_from, "the last batch crossed it"
    distil(tmp_path, target, PLANNED)
    assert checkpoint(tmp_path, "level")["place"]["tokens"] == stopped.steps[-1]
    more = distil(tmp_path, target, 2 * PLANNED)
    assert stopped.steps[-1] < more.steps[0] < PLANNED


def test_an_end_that_is_nearer_is_reached_from_where_steps_were_still_large(
    tmp_path: Path, target: Path
) -> None:
    stopped = distil(tmp_path, target, 2 * PLANNED, stop_at=2 * PLANNED - 1500)
    level = checkpoint(tmp_path, "level")["place"]["tokens"]
    assert level < stopped.steps[-1]
    nearer = distil(tmp_path, target, 2 * PLANNED - 600)
    assert level < nearer.steps[0] <= stopped.steps[-1]


def test_a_stretch_of_another_choice_is_not_gone_on_with(tmp_path: Path, target: Path) -> None:
    distil(tmp_path, target, PLANNED)
    checkpoints = tmp_path / "draft-work" / "checkpoints"
    level = (checkpoints / "level.safetensors").read_bytes()
    (checkpoints / "last.safetensors").unlink()
    distil(tmp_path, target, PLANNED, layers=(0, 2))
    (checkpoints / "level.safetensors").write_bytes(level)
    made = plan(target, tmp_path / "draft", tokens=2 * PLANNED, layers=(0, 2))
    with pytest.raises(DistillError, match="another draft"):
        Distillation(made, cache_dir=tmp_path / "cache", events=Heard()).run()

"""A draft is made for a tiny target, from nothing to a folder that a worker loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import torch as safetensors

from outrider.distill.distillation import Distillation
from outrider.distill.errors import DistillError
from outrider.distill.judging import from_dict
from outrider.engine.loading import load_model
from outrider.memory_budget import MemoryBudget
from tests.integration.distill.tiny_distillation import Heard, plan, save_target, save_with_dropout


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_target(tmp_path_factory.mktemp("target") / "tiny")


def distil(tmp_path: Path, target: Path, name: str = "draft", **changes: object) -> Heard:
    heard = Heard()
    made = plan(target, tmp_path / name, **changes)
    Distillation(made, cache_dir=tmp_path / "cache", events=heard).run()
    return heard


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return safetensors.load_file(folder / "model.safetensors")


def test_the_draft_learns_and_is_one_that_a_worker_loads(tmp_path: Path, target: Path) -> None:
    heard = distil(tmp_path, target, tokens=20_000)
    first, last = heard.points[0], heard.points[-1]
    assert last.judgement.drawn.loss < 0.8 * first.judgement.drawn.loss
    assert last.judgement.score > first.judgement.score
    assert heard.trials[-1].drawn.rounds > 0
    loaded = load_model(
        str(tmp_path / "draft"),
        role="draft",
        cache_dir=tmp_path / "cache",
        dtype="float32",
        kv_memory=MemoryBudget(size=1 << 20),
    )
    assert len(loaded.model.columns) == 128
    card = (tmp_path / "draft" / "README.md").read_text()
    assert f"{heard.trials[-1].greedy.tokens_per_round:.2f}" in card
    assert str(last.tokens) in card


def test_two_runs_with_one_seed_agree(tmp_path: Path, target: Path) -> None:
    one, other = (distil(tmp_path, target, name) for name in ("one", "other"))
    assert one.points == other.points
    for point in one.points:
        kept = from_dict(point.judgement.as_dict())
        assert kept == point.judgement, "the score is made of figures as they are kept"
    first, second = weights(tmp_path / "one"), weights(tmp_path / "other")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    third = distil(tmp_path, target, "third", seed=1)
    assert third.points != one.points


def test_two_runs_agree_where_the_target_was_made_with_dropout(tmp_path: Path) -> None:
    target = save_with_dropout(tmp_path / "target")
    one, other = (distil(tmp_path, target, name, tokens=2500) for name in ("one", "other"))
    assert len(one.points) > 1
    assert one.points == other.points


def test_as_many_texts_side_by_side_as_are_asked_for_have_room(
    tmp_path: Path, target: Path
) -> None:
    """More than the pool of a worker would hold: of 64 contexts at most, by itself."""
    heard = distil(tmp_path, target, written_tokens=2000, side_by_side=200, longest=90, tokens=600)
    assert heard.points


def test_what_is_done_is_not_done_again(tmp_path: Path, target: Path) -> None:
    before = distil(tmp_path, target)
    again = distil(tmp_path, target, tokens=600)
    assert again.points == [], "nothing was taught"
    assert any(f"{before.points[-1].tokens} tokens" in words for words in again.stages)
    assert not any(what.startswith("writing") for what in again.whats), "nothing was written"
    assert again.trials[-1] == before.trials[-1]


def test_more_tokens_go_on_where_steps_were_still_large(tmp_path: Path, target: Path) -> None:
    before = distil(tmp_path, target)
    more = distil(tmp_path, target, tokens=12_000)
    assert more.points[0].tokens > 2000, "it did not begin anew"
    assert more.points[-1].tokens >= 12_000
    kept = [json.loads(line) for line in curve_lines(tmp_path)]
    assert kept[0]["tokens"] == 0
    assert len(kept) > len(before.points) - 2


def curve_lines(tmp_path: Path) -> list[str]:
    return (tmp_path / "draft-work" / "checkpoints" / "curve.jsonl").read_text().splitlines()


def test_layers_and_loss_are_chosen_by_trial(tmp_path: Path, target: Path) -> None:
    heard = distil(tmp_path, target, layers=2, loss="auto", tokens=600)
    layers = {one.layers for one in heard.tries}
    assert layers == {(0, 1), (0, 3)}
    best = max(
        (one for one in heard.tries if one.loss == "forward-kl"),
        key=lambda one: one.judgement.score,
    )
    assert {one.loss for one in heard.tries if one.layers == best.layers} == {
        "forward-kl",
        "reverse-kl",
        "total-variation",
    }
    again = distil(tmp_path, target, layers=2, loss="auto", tokens=600)
    assert again.tries == [], "no trial is made twice"


def test_a_draft_can_be_gone_on_from(tmp_path: Path, target: Path) -> None:
    first = distil(tmp_path, target, "first", tokens=20_000)
    second = distil(tmp_path, target, "second", begin_from=tmp_path / "first", tokens=600)
    begun, ended = second.points[0].judgement, first.points[-1].judgement
    assert begun.drawn.loss == pytest.approx(ended.drawn.loss, rel=0.02)


def test_own_text_is_learnt_from_without_any_chat(tmp_path: Path) -> None:
    plain = save_target(tmp_path / "plain", chats=False)
    text = tmp_path / "own.txt"
    text.write_text("\n\n".join(f"The cat of house {number} sat." for number in range(200)))
    heard = distil(tmp_path, plain, texts=(text,), tokens=600)
    assert any(what.startswith("reading") for what in heard.whats)
    assert heard.points[-1].judgement.greedy.places > 0


def test_checkpoints_of_another_draft_are_not_gone_on_from(tmp_path: Path, target: Path) -> None:
    distil(tmp_path, target)
    with pytest.raises(DistillError, match="another draft"):
        distil(tmp_path, target, layers=(0, 1))
    with pytest.raises(DistillError, match="other options"):
        distil(tmp_path, target, longest=15)


def test_checkpoints_of_another_draft_are_found_before_anything_is_tried(
    tmp_path: Path, target: Path
) -> None:
    distil(tmp_path, target, loss="auto", tokens=600)
    heard = Heard()
    made = plan(target, tmp_path / "draft", loss="auto", tokens=600, learning_rate=1e-3)
    with pytest.raises(DistillError, match="another draft"):
        Distillation(made, cache_dir=tmp_path / "cache", events=heard).run()
    assert heard.tries == []

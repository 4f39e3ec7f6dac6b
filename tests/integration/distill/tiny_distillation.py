"""A target small enough to make a draft for in seconds, and plans for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

from outrider.distill.curve import Point
from outrider.distill.plan import DistillPlan
from outrider.distill.trials import Tried
from outrider.distill.trying import VerifiedBothWays
from outrider.testing.tiny_tokenizer import BOS_TOKEN_ID, EOS_TOKEN_ID, save_tiny_tokenizer

LAYERS = 4


def save_target(folder: Path, *, chats: bool = True) -> Path:
    """A random Llama of four layers with a tokenizer. `chats`: it has a template for chats."""
    folder.mkdir()
    size = save_tiny_tokenizer(folder)
    if not chats:
        (folder / "chat_template.jinja").unlink()
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.15,
        tie_word_embeddings=True,
        bos_token_id=BOS_TOKEN_ID,
        eos_token_id=EOS_TOKEN_ID,
        pad_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def save_with_head_of_its_own(folder: Path, **head: Any) -> Path:
    """The same with a Granite, whose logits are scaled."""
    save_target(folder)
    values = json.loads((folder / "config.json").read_text())
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    config = GraniteConfig(**{name: values[name] for name in (*names, "vocab_size")}, **head)
    GraniteForCausalLM(config).save_pretrained(folder)
    return folder


def save_with_dropout(folder: Path) -> Path:
    """The same with a GPT-2, of which a tenth is dropped out where it is taught by itself."""
    save_target(folder)
    values = json.loads((folder / "config.json").read_text())
    config = GPT2Config(
        vocab_size=values["vocab_size"], n_embd=32, n_layer=LAYERS, n_head=4, n_positions=256,
        bos_token_id=BOS_TOKEN_ID, eos_token_id=EOS_TOKEN_ID,
    )  # fmt: skip
    assert config.resid_pdrop > 0.0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def plan(target: Path, out: Path, **changes: Any) -> DistillPlan:
    """Layers and loss given, so that nothing is tried first."""
    values: dict[str, Any] = {
        "out": out,
        "work": out.with_name(out.name + "-work"),
        "target": str(target),
        "written_tokens": 500,
        "longest": 16,
        "layers": (0, 3),
        "loss": "forward-kl",
        "vocabulary": 128,
        "tokens": 6000,
        "trial_tokens": 600,
        "batch_tokens": 256,
        "learning_rate": 5e-3,
        "judge_every": 2000,
        "verify_prompts": 1,
        "verify_tokens": 12,
        "side_by_side": 16,
        "held_out_texts": 8,
        "dtype": "float32",
        "threads": 1,
    }
    return DistillPlan(**{**values, **changes})


class Heard:
    """All that a distillation told."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.points: list[Point] = []
        self.tries: list[Tried] = []
        self.trials: list[VerifiedBothWays] = []
        self.whats: set[str] = set()

    def stage(self, words: str) -> None:
        """Another part of the work begins."""
        self.stages.append(words)

    def done(self, what: str, tokens: int, of: int) -> None:
        """So many of its tokens are done."""
        self.whats.add(what)

    def tried(self, tried: Tried) -> None:
        """A short teaching is over."""
        self.tries.append(tried)

    def judged(self, point: Point) -> None:
        """The student was held against held-out texts."""
        self.points.append(point)

    def verified(self, tokens: int, trials: VerifiedBothWays) -> None:
        """The student drafted for real generations."""
        self.trials.append(trials)

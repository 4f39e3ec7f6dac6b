"""A model whose cache cannot be rolled back is refused at load, naming the layer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from outrider.engine.load_error import ModelLoadError
from outrider.engine.rollback_check import check_behaviour, check_layers
from outrider.engine.transformers_model import TransformersModel, TransformersSequence

TINY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "pad_token_id": None,
}


def build(model_type: str, **changes: Any) -> Any:
    torch.manual_seed(3)
    config = AutoConfig.for_model(model_type, **{**TINY, **changes})
    return AutoModelForCausalLM.from_config(config).eval()


def check(model: Any, *, context_length: int = 64) -> None:
    check_layers(model, context_length=context_length)
    check_behaviour(TransformersModel(model))


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        ("llama", {}),
        ("qwen2", {}),
        ("qwen3", {"head_dim": 16}),
        ("mistral", {"sliding_window": None}),
        ("gpt2", {"n_inner": 48}),
        ("phi3", {}),
        ("gpt_neox", {}),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}),
    ],
)
def test_full_attention_is_served(model_type: str, changes: dict[str, Any]) -> None:
    check(build(model_type, **changes))


@pytest.mark.parametrize(
    ("model_type", "changes", "layer", "kind"),
    [
        ("mistral", {"sliding_window": 16}, 0, "sliding"),
        (
            "qwen2",
            {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
            1,
            "sliding_attention",
        ),
        ("gemma2", {"sliding_window": 16, "head_dim": 16}, 0, "sliding_attention"),
        ("gemma3_text", {"sliding_window": 16, "head_dim": 16}, 0, "sliding_attention"),
        ("mamba", {"state_size": 4}, 0, "linear_attention|mamba"),
        ("mamba2", {"num_heads": 4, "head_dim": 16, "state_size": 4, "n_groups": 1}, 0, "linear"),
        (
            "jamba",
            {
                "num_experts": 2,
                "attn_layer_period": 2,
                "attn_layer_offset": 0,
                "use_mamba_kernels": False,
            },
            1,
            "linear|mamba",
        ),
        ("lfm2", {"full_attn_idxs": [0], "block_multiple_of": 16}, 1, "conv"),
        ("recurrent_gemma", {"lru_width": 32, "attention_window_size": 16}, 0, ""),
    ],
)
def test_other_layers_are_refused_by_number(
    model_type: str, changes: dict[str, Any], layer: int, kind: str
) -> None:
    with pytest.raises(ModelLoadError, match=rf"layer {layer}\b.*({kind})"):
        check(build(model_type, **changes))


@pytest.mark.parametrize("rope_type", ["dynamic", "longrope"])
def test_a_rope_that_changes_with_length_is_served_below_its_edge(rope_type: str) -> None:
    rope = {
        "rope_type": rope_type,
        "rope_theta": 1e4,
        "factor": 2.0,
        "original_max_position_embeddings": 32,
    }
    if rope_type == "longrope":
        rope |= {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    model = build("llama", rope_parameters=rope)
    check(model, context_length=32)
    with pytest.raises(ModelLoadError, match=f"{rope_type}.*32 tokens"):
        check(model, context_length=33)


def test_a_cache_that_keeps_a_rejected_token_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_ids_only(sequence: TransformersSequence, length: int) -> None:
        sequence.prefix.truncate(length)

    model = build("llama")
    monkeypatch.setattr(TransformersSequence, "rollback", forget_ids_only)
    with pytest.raises(ModelLoadError, match="layer 0"):
        check(model)


def test_a_cache_that_forgets_the_wrong_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_the_start(sequence: TransformersSequence, length: int) -> None:
        sequence.prefix.truncate(length)
        for layer in sequence.cache.layers:
            layer.keys, layer.values = layer.keys[..., -length:, :], layer.values[..., -length:, :]

    model = build("llama")
    monkeypatch.setattr(TransformersSequence, "rollback", forget_the_start)
    with pytest.raises(ModelLoadError, match="layer 0"):
        check(model)

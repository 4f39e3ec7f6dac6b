"""A model with layers that the engine does not know is refused at load, naming the layer."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoConfig, AutoModelForCausalLM

from outrider.engine.layer_check import check_layers
from outrider.engine.load_error import ModelLoadError
from outrider.testing.tiny_families import COMMON


def build(model_type: str, **changes: Any) -> Any:
    config = AutoConfig.for_model(model_type, **{**COMMON, **changes})
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize(
    ("model_type", "changes", "layer", "kind"),
    [
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
        ("llama", {"layer_types": ["full_attention", "full_attention", "moe"]}, 2, "moe"),
    ],
)
def test_unknown_layers_are_refused_by_number(
    model_type: str, changes: dict[str, Any], layer: int, kind: str
) -> None:
    with pytest.raises(ModelLoadError, match=rf"layer {layer}\b.*({kind})"):
        check_layers(build(model_type, **changes), context_length=64)


@pytest.mark.parametrize("rope_type", ["dynamic", "longrope"])
def test_a_rope_that_changes_with_length_is_served_below_its_edge(rope_type: str) -> None:
    model = build("llama", rope_parameters=growing_rope(rope_type))
    check_layers(model, context_length=32)
    with pytest.raises(ModelLoadError, match=f"{rope_type}.*32 tokens"):
        check_layers(model, context_length=33)


def test_a_rope_of_an_unknown_kind_is_refused() -> None:
    model = build("llama")
    model.config.rope_parameters = {"rope_type": "spiral", "rope_theta": 1e4}
    with pytest.raises(ModelLoadError, match="spiral"):
        check_layers(model, context_length=32)


def test_a_decoder_of_an_encoder_is_refused() -> None:
    model = build("llama")
    model.config.is_encoder_decoder = True
    with pytest.raises(ModelLoadError, match="encoder"):
        check_layers(model, context_length=32)


def growing_rope(rope_type: str) -> dict[str, Any]:
    rope = {
        "rope_type": rope_type,
        "rope_theta": 1e4,
        "factor": 2.0,
        "original_max_position_embeddings": 32,
    }
    if rope_type == "longrope":
        rope |= {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    return rope

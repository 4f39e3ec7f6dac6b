"""A model that gives something else in packed batches than alone is refused at load."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaAttention

from outrider.engine import attention_interface
from outrider.engine.attention_check import check_attention
from outrider.engine.kv_layout_probe import probe_kv_layout
from outrider.engine.kv_pool import KvPool
from outrider.engine.load_error import ModelLoadError
from outrider.engine.mask_rule import MaskRule
from outrider.engine.paged_sequence import Sequence
from outrider.testing.tiny_families import COMMON, CONTEXT, build
from outrider.testing.tiny_families import Family as Kind


def check(model: Any, *, context_length: int = CONTEXT) -> None:
    check_attention(model, layout=probe_kv_layout(model), context_length=context_length)


def llama() -> LlamaForCausalLM:
    return build(Kind("llama"))


@pytest.mark.parametrize("context_length", [8, 31, 128])
def test_short_contexts_can_be_checked(context_length: int) -> None:
    check(llama(), context_length=context_length)


def test_it_leaves_the_model_as_transformers_runs_it() -> None:
    model = llama()
    check(model)
    assert model.config._attn_implementation == "sdpa"
    assert model(torch.tensor([[1, 2]])).logits.isfinite().all()


@pytest.mark.parametrize("model_type", ["gpt_neo", "bloom", "mamba"])
def test_attention_that_cannot_be_replaced_is_refused(model_type: str) -> None:
    changes = {
        "gpt_neo": {"attention_types": [[["global", "local", "global"], 1]], "num_layers": 3},
        "bloom": {"n_head": 4, "n_layer": 3},
        "mamba": {"state_size": 4},
    }[model_type]
    config = AutoConfig.for_model(model_type, **{**COMMON, **changes})
    with pytest.raises(ModelLoadError, match=f"layer 0.*{model_type}"):
        check(AutoModelForCausalLM.from_config(config).eval())


@pytest.mark.parametrize("model_type", ["stablelm", "nemotron"])
def test_layers_that_drop_what_they_are_given_are_refused(model_type: str) -> None:
    with pytest.raises(ModelLoadError, match="do not hand on"):
        check(build(Kind(model_type)))


@pytest.mark.parametrize("rope_type", ["dynamic", "longrope"])
def test_a_neighbour_that_turns_keys_is_noticed(rope_type: str) -> None:
    rope: dict[str, Any] = {
        "rope_type": rope_type,
        "rope_theta": 1e4,
        "factor": 2.0,
        "original_max_position_embeddings": 32,
    }
    if rope_type == "longrope":
        rope |= {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    model = build(Kind("llama", {"rope_parameters": rope, "max_position_embeddings": 32}))
    check(model, context_length=32)
    with pytest.raises(ModelLoadError, match=r"rope.*beside"):
        check(model, context_length=100)


@pytest.mark.parametrize("keyword", ["position_bias", "softcap_of_tomorrow"])
def test_an_unknown_keyword_is_refused(monkeypatch: pytest.MonkeyPatch, keyword: str) -> None:
    whole = LlamaAttention.forward

    def forward(module: LlamaAttention, *arguments: Any, **keywords: Any) -> Any:
        return whole(module, *arguments, **keywords, **{keyword: torch.ones(1)})

    model = llama()
    layout = probe_kv_layout(model)
    monkeypatch.setattr(LlamaAttention, "forward", forward)
    with pytest.raises(ModelLoadError, match=keyword):
        check_attention(model, layout=layout, context_length=CONTEXT)


def test_a_copy_that_does_not_copy_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KvPool, "copy", lambda pool, source, destination: None)
    with pytest.raises(ModelLoadError, match="layer 0"):
        check(llama())


def test_a_shared_block_that_is_written_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sequence, "_make_writable", lambda sequence: None)
    with pytest.raises(ModelLoadError, match="layer 0"):
        check(llama())


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_the_layer_that_differs_is_named(monkeypatch: pytest.MonkeyPatch, layer: int) -> None:
    whole = attention_interface.packed_attention

    def forgetful(module: Any, *arguments: Any, **keywords: Any) -> Any:
        answer, weights = whole(module, *arguments, **keywords)
        return (answer * 0.5 if module.layer_idx == layer else answer), weights

    monkeypatch.setattr(attention_interface, "packed_attention", forgetful)
    with pytest.raises(ModelLoadError, match=rf"layer {layer}\b"):
        check(llama())


def test_a_window_that_is_one_too_wide_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = MaskRule.mask

    def wider(rule: MaskRule, looking: torch.Tensor, looked_at: torch.Tensor) -> torch.Tensor:
        return whole(rule, looking, looked_at) | whole(rule, looking, looked_at + 1)

    model = build(Kind("mistral", {"sliding_window": 8}))
    check(model)
    monkeypatch.setattr(MaskRule, "mask", wider)
    with pytest.raises(ModelLoadError, match="layer 0"):
        check(model)

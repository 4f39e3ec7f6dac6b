"""A head that is cut to part of the vocabulary: only where it is nothing but a linear layer."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

PROBE = (1, 2, 3, 4)
MOST_APART = 0.02
"""Of the logits' spread: what numbers of few digits may differ by."""


def head_rows(model: PreTrainedModel, token_ids: torch.Tensor) -> torch.Tensor:
    """The head's weights for some ids, [ids, hidden]. Raises ValueError if it has more."""
    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear) or head.bias is not None:
        raise ValueError("a head over part of the vocabulary needs a linear head without bias")
    with torch.no_grad():
        return head.weight[token_ids.to(head.weight.device)]


@torch.inference_mode()
def check_head(model: PreTrainedModel, token_ids: torch.Tensor) -> None:
    """Raises ValueError where logits are not what the head's weights alone make of the hidden
    state, scaled or capped ones for instance: a draft of it cannot be cut to these ids."""
    head = head_rows(model, token_ids)
    probe = torch.tensor([PROBE], device=model.device)
    hidden = model.base_model(probe, use_cache=False).last_hidden_state[0, -1]
    expected = model(probe, use_cache=False).logits[0, -1, token_ids].float()
    cut = torch.nn.functional.linear(hidden, head).float()
    if not torch.allclose(cut, expected, rtol=0.0, atol=MOST_APART * float(expected.std())):
        raise ValueError("its head is more than a linear layer and cannot be cut")

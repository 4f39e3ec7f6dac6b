"""What an optimizer remembers can be put back, wherever it was kept."""

from __future__ import annotations

import torch

from outrider.distill.optimizer import Optimizer


def weights(device: str) -> list[torch.nn.Parameter]:
    """A matrix, which Muon moves, and a row, which AdamW moves."""
    return [torch.nn.Parameter(torch.ones(size, device=device)) for size in ((3, 4), (5,))]


def stepped(optimizer: Optimizer, *taught: torch.nn.Parameter) -> None:
    for weight in taught:
        weight.grad = torch.full_like(weight, 0.5)
    optimizer.step(1e-3)


def test_memory_that_was_kept_goes_where_its_weight_is() -> None:
    taught = weights("cpu")
    optimizer = Optimizer(taught)
    stepped(optimizer, *taught)
    elsewhere = weights("meta")
    other = Optimizer(elsewhere)
    for weight, twin in zip(taught, elsewhere, strict=True):
        memory = optimizer.memory(weight)
        assert memory
        other.remember(twin, memory)
        kept = other.memory(twin)
        assert {name: value.device.type for name, value in kept.items()} == {
            name: "cpu" if name == "step" else "meta" for name in memory
        }
    stepped(other, elsewhere[0])


def test_a_step_after_remembering_is_the_step_that_would_have_been() -> None:
    one, other = weights("cpu"), weights("cpu")
    first, second = Optimizer(one), Optimizer(other)
    for _ in range(3):
        stepped(first, *one)
    for weight, twin in zip(one, other, strict=True):
        twin.data.copy_(weight.data)
        second.remember(twin, {name: value.clone() for name, value in first.memory(weight).items()})
    stepped(first, *one)
    stepped(second, *other)
    assert all(torch.equal(weight, twin) for weight, twin in zip(one, other, strict=True))

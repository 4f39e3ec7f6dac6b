"""The tensors of the block pool: keys and values of every layer, block by block."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class LayerShape:
    """What one layer keeps of a token: `heads` keys and `heads` values of these sizes."""

    heads: int
    key_size: int
    value_size: int

    @property
    def numbers(self) -> int:
        """Numbers kept of one token."""
        return self.heads * (self.key_size + self.value_size)


@dataclass(frozen=True, slots=True)
class KvLayout:
    """How KV state is laid out: what each layer keeps, and in which numbers."""

    layers: tuple[LayerShape, ...]
    block_size: int
    dtype: torch.dtype
    device: torch.device

    @property
    def token_bytes(self) -> int:
        """Bytes of one token, over all layers."""
        return sum(layer.numbers for layer in self.layers) * self.dtype.itemsize

    @property
    def block_bytes(self) -> int:
        """Bytes of one block, over all layers."""
        return self.token_bytes * self.block_size

    @property
    def widest_token_bytes(self) -> int:
        """Bytes of one token in the layer that keeps most."""
        return max(layer.numbers for layer in self.layers) * self.dtype.itemsize

    def blocks_for(self, length: int) -> int:
        """Blocks that hold `length` tokens."""
        return -(-length // self.block_size)

    def blocks_within(self, size: int) -> int:
        """Blocks that fit into `size` bytes."""
        return size // self.block_bytes


class KvPool:
    """Keys and values, for each layer [blocks + 1, block_size, heads, size].

    The last block is nobody's and stays zero: places that stand for no token point there. What
    other blocks hold beyond their sequence's length is undefined and may be NaN, so nobody may
    read it, not even to weigh it with 0.
    """

    def __init__(self, layout: KvLayout, *, blocks: int) -> None:
        """Memory for `blocks` blocks. On a CPU the system hands it out as it is written."""
        if blocks < 1:
            raise ValueError("a pool needs a block")
        self.layout = layout
        self.blocks = blocks
        self.keys = [self._make(shape.heads, shape.key_size) for shape in layout.layers]
        self.values = [self._make(shape.heads, shape.value_size) for shape in layout.layers]

    @property
    def empty_place(self) -> int:
        """A place (block · block_size + offset) that is always zero."""
        return self.blocks * self.layout.block_size

    def write(
        self, layer: int, places: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Stores keys and values [tokens, heads, size] at places [tokens] of one layer."""
        self.keys[layer].flatten(0, 1).index_copy_(0, places, keys)
        self.values[layer].flatten(0, 1).index_copy_(0, places, values)

    def copy(self, source: int, destination: int) -> None:
        """Copies one block, in all layers."""
        with torch.inference_mode():
            for tensor in (*self.keys, *self.values):
                tensor[destination].copy_(tensor[source])

    def _make(self, heads: int, size: int) -> torch.Tensor:
        layout = self.layout
        shape = (self.blocks + 1, layout.block_size, heads, size)
        tensor = torch.empty(shape, dtype=layout.dtype, device=layout.device)
        tensor[-1] = 0.0
        return tensor

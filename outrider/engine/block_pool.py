"""The blocks that KV state lives in: who holds which, what can still be found, what gives way.

A block holds the keys and values of `block_size` consecutive positions. It is *held* by the tables
of one or more sequences, or *cached*: released, but its content can still be found, by its key or
by the sequence that shelved it. The rest is free. When a block is wanted and none is free, the
block that has been cached longest gives way. Only numbers are kept here; tensors belong to the
model.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.engine.paged_sequence import Sequence

BLOCK_SIZE = 16


class OutOfBlocks(Exception):  # noqa: N818
    """No block can be had without taking one from a sequence that holds it."""


@dataclass(slots=True)
class PoolStatistics:
    """Sums since the start.

    `prefix_asked_tokens`: ids that new sequences were about to read; `prefix_hit_tokens`: of
    those, the ids whose KV state was found. `preemptions`: sequences that lost their blocks to
    older ones.
    """

    prefix_asked_tokens: int = 0
    prefix_hit_tokens: int = 0
    evicted_blocks: int = 0
    copied_blocks: int = 0
    preemptions: int = 0


class BlockPool:
    """A fixed number of blocks. Touched on the model thread only."""

    def __init__(self, blocks: int, *, block_size: int = BLOCK_SIZE, block_bytes: int = 0) -> None:
        """`block_size`: positions in a block. `block_bytes`: memory of one, over all layers."""
        if blocks < 1 or block_size < 1:
            raise ValueError("a pool needs a block, and a block a position")
        self.blocks = blocks
        self.block_size = block_size
        self.block_bytes = block_bytes
        self.copy: Callable[[int, int], None] = lambda source, destination: None
        """Copies one block's content to another; set by the owner of the tensors."""
        self.statistics = PoolStatistics()
        self.holders: dict[Sequence, None] = {}
        """The sequences that hold blocks, in the order in which they came to."""
        self._references = [0] * blocks
        self._stamps = [0] * blocks
        self._keys: list[bytes | None] = [None] * blocks
        self._by_key: dict[bytes, int] = {}
        self._free = list(reversed(range(blocks)))
        self._cached: OrderedDict[int, None] = OrderedDict()

    @property
    def capacity_tokens(self) -> int:
        """Positions in all blocks together."""
        return self.blocks * self.block_size

    @property
    def available(self) -> int:
        """Blocks that can be taken without touching a sequence: free and cached ones."""
        return len(self._free) + len(self._cached)

    @property
    def in_use(self) -> int:
        """Blocks that some table holds."""
        return self.blocks - self.available

    @property
    def cached(self) -> int:
        """Released blocks whose content can still be found."""
        return len(self._cached)

    def take(self) -> int:
        """A block of unknown content, held once. Raises OutOfBlocks."""
        if self._free:
            block = self._free.pop()
        elif self._cached:
            block, _ = self._cached.popitem(last=False)
            self._forget_key(block)
            self.statistics.evicted_blocks += 1
        else:
            raise OutOfBlocks
        self._references[block] = 1
        self._stamps[block] += 1
        return block

    def share(self, block: int) -> None:
        """Holds a held or cached block once more."""
        if self._references[block] == 0:
            del self._cached[block]
        self._references[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Holds each block once less. One that nobody holds is cached if it has a key, else free.

        Of the blocks that become cached now, the first ones give way first.
        """
        for block in blocks:
            if self._drop_reference(block):
                if self._keys[block] is None:
                    self._set_free(block)
                else:
                    self._cached[block] = None

    def shelve(self, blocks: Iterable[int]) -> None:
        """As `release`, but blocks without a key are cached too: their stamp finds them again."""
        for block in blocks:
            if self._drop_reference(block):
                self._cached[block] = None

    def forget(self, block: int, stamp: int) -> None:
        """Frees a shelved block that nobody else can find, if its stamp is still that."""
        if self._stamps[block] == stamp and block in self._cached and self._keys[block] is None:
            del self._cached[block]
            self._set_free(block)

    def stamp(self, block: int) -> int:
        """Another number whenever the block's content may be another."""
        return self._stamps[block]

    def held(self, block: int) -> bool:
        """Some table holds it."""
        return self._references[block] > 0

    def shared(self, block: int) -> bool:
        """More than one table holds it."""
        return self._references[block] > 1

    def sealed(self, block: int) -> bool:
        """It has a key: its content is final."""
        return self._keys[block] is not None

    def seal(self, block: int, key: bytes) -> None:
        """Names the content of a held block, unless another block has that name already."""
        if self._keys[block] is None and key not in self._by_key:
            self._keys[block] = key
            self._by_key[key] = block

    def find(self, key: bytes) -> int | None:
        """The held or cached block with that content."""
        return self._by_key.get(key)

    def unseal(self, block: int) -> None:
        """Takes the key from a block whose content is about to change, or is not to be trusted."""
        self._forget_key(block)
        self._stamps[block] += 1

    def _set_free(self, block: int) -> None:
        # Whoever remembers it must not find it: it is taken without a look at the cached ones.
        self._stamps[block] += 1
        self._free.append(block)

    def _drop_reference(self, block: int) -> bool:
        if self._references[block] < 1:
            raise RuntimeError("a block was released that nobody holds")
        self._references[block] -= 1
        return self._references[block] == 0

    def _forget_key(self, block: int) -> None:
        key = self._keys[block]
        if key is not None:
            self._keys[block] = None
            del self._by_key[key]

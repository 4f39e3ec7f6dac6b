"""The KV state of one token sequence: a table of blocks, and the ids whose state they hold."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

from outrider.engine.block_key import block_key
from outrider.engine.block_pool import BlockPool, OutOfBlocks
from outrider.prefix import TokenPrefix


class Sequence:
    """Used on the model thread only.

    Position i lives in block `table[i // block_size]`, at place i % block_size. The table may
    reach beyond the prefix: those slots are reserved. A block that is shared or sealed is never
    written: `reserve` copies it first.
    """

    def __init__(self, pool: BlockPool, *, scope: bytes = b"") -> None:
        """Empty state. `scope`: sealed blocks are found by sequences of the same scope only."""
        self.pool = pool
        self.scope = scope
        self.prefix = TokenPrefix()
        self.table: list[int] = []
        self.preempted = False
        """It had state, lost it and has read nothing since: its generation is under way."""
        self.revoked = False
        """Another owner took its state over: no work may go on with it."""
        self.recalled = False
        """The work under way on it is to end before the next forward."""
        self.disposable = False
        """Nobody reads it again once its state is gone."""
        self._keys: list[bytes] = []
        self._claims: list[int] | None = None
        self._asked = False

    @property
    def kv_bytes(self) -> int:
        """Bytes of the blocks it holds."""
        return 0 if self._claims is not None else len(self.table) * self.pool.block_bytes

    @property
    def parked(self) -> bool:
        """It holds nothing, but may find its blocks again."""
        return self._claims is not None

    def blocks_needed(self, count: int) -> int:
        """Blocks that `reserve(count)` has to take."""
        length, size = len(self.prefix), self.pool.block_size
        missing = max(0, _blocks(length + count, size) - len(self.table))
        return missing + (count > 0 and self._writes_into_shared())

    def reserve(self, count: int) -> None:
        """Makes the next `count` positions writable. All or nothing; raises OutOfBlocks."""
        if self.blocks_needed(count) > self.pool.available:
            raise OutOfBlocks
        while len(self.table) * self.pool.block_size < len(self.prefix) + count:
            self._hold(self.pool.take())
        if count > 0:
            self._make_writable()

    def append(self, token_ids: SequenceOf[int]) -> None:
        """Says that the state of these ids has been written to reserved slots."""
        self.preempted = False
        self.prefix.extend(token_ids)

    def rollback(self, length: int) -> None:
        """Forgets all but the first `length` ids."""
        self.prefix.truncate(length)
        size = self.pool.block_size
        kept = _blocks(len(self.prefix), size)
        surplus = self.table[kept:]
        if surplus:
            del self.table[kept:]
            self.pool.release(reversed(surplus))
            self._leave_if_empty()
        del self._keys[len(self.prefix) // size :]

    def seal(self, length: int) -> None:
        """Says that the first `length` ids are final: others may share their full blocks."""
        size = self.pool.block_size
        for index in range(len(self._keys), min(length, len(self.prefix)) // size):
            key = self._next_key(self.prefix.token_ids[index * size : (index + 1) * size])
            self.pool.seal(self.table[index], key)
            self._keys.append(key)

    def adopt(self, token_ids: SequenceOf[int]) -> int:
        """Shares blocks that hold the state of the ids to come; how many ids that spares.

        `token_ids`: what is to be read next. Whole blocks only, and only from a block border.
        """
        size, statistics = self.pool.block_size, self.pool.statistics
        length = len(self.prefix)
        if not self._asked and length == 0:
            self._asked = True
            statistics.prefix_asked_tokens += len(token_ids)
        adopted = 0
        while length % size == 0 and adopted + size <= len(token_ids):
            self.seal(len(self.prefix))
            ids = token_ids[adopted : adopted + size]
            key = self._next_key(ids)
            block = self.pool.find(key)
            if block is None:
                break
            self._put(block, (length + adopted) // size)
            self._keys.append(key)
            self.append(ids)
            adopted += size
        statistics.prefix_hit_tokens += adopted
        return adopted

    def keys_of(self, token_ids: SequenceOf[int]) -> list[bytes]:
        """The keys of the whole blocks that these ids would fill, if they were read next."""
        size = self.pool.block_size
        if len(self.prefix) % size:
            return []
        self.seal(len(self.prefix))
        keys: list[bytes] = []
        for start in range(0, len(token_ids) - size + 1, size):
            parent = keys[-1] if keys else self._keys[-1] if self._keys else b""
            keys.append(block_key(self.scope, parent, token_ids[start : start + size]))
        return keys

    def in_use_among(self, keys: SequenceOf[bytes]) -> int:
        """Of the blocks that `adopt` would share, those that others hold: they take no room."""
        count = 0
        for key in keys:
            block = self.pool.find(key)
            if block is None:
                break
            count += self.pool.held(block)
        return count

    def fork(self) -> Sequence:
        """A disposable sequence with the same ids; they share blocks until one of them writes."""
        twin = Sequence(self.pool, scope=self.scope)
        twin.disposable = True
        twin.prefix = self.prefix.copy()
        twin._keys = list(self._keys)
        for block in self.table[: _blocks(len(self.prefix), self.pool.block_size)]:
            self.pool.share(block)
            twin._hold(block)
        return twin

    def clear(self) -> None:
        """Gives everything back; sealed blocks can still be found."""
        self._drop_claims()
        self.rollback(0)
        self._asked = False

    def discard(self) -> None:
        """Gives everything back and trusts none of it any more: a forward went wrong."""
        for block in self.table if self._claims is None else ():
            if not self.pool.shared(block):
                self.pool.unseal(block)
        self.clear()

    def hand_over(self) -> Sequence:
        """Another sequence with all this one has; this one is revoked."""
        heir = Sequence(self.pool, scope=self.scope)
        heir.prefix, heir.table, heir.preempted = self.prefix, self.table, self.preempted
        heir._keys, heir._claims, heir._asked = self._keys, self._claims, self._asked
        if self in self.pool.holders:
            del self.pool.holders[self]
            self.pool.holders[heir] = None
        self.prefix, self.table, self._keys, self._claims = TokenPrefix(), [], [], None
        self.revoked = True
        return heir

    def revoke(self) -> None:
        """Gives everything back for good."""
        self.clear()
        self.revoked = True

    def preempt(self) -> list[int]:
        """Gives everything back to make room; the ids it had."""
        token_ids = list(self.prefix.token_ids)
        self.seal(len(token_ids))
        self.clear()
        self.preempted = True
        self.pool.statistics.preemptions += not self.disposable
        return token_ids

    def park(self) -> None:
        """Gives the blocks back, but remembers them: `unpark` finds what is left of them."""
        if self._claims is not None:
            return
        kept = _blocks(len(self.prefix), self.pool.block_size)
        self.pool.release(self.table[kept:])
        del self.table[kept:]
        self.seal(len(self.prefix))
        self._claims = [self.pool.stamp(block) for block in self.table]
        self.pool.shelve(reversed(self.table))
        self.pool.holders.pop(self, None)

    def unpark(self) -> None:
        """Holds the leading blocks again that nobody has written since; the ids follow."""
        claims, self._claims = self._claims, None
        if claims is None:
            return
        blocks, self.table = self.table, []
        for block, claim in zip(blocks, claims, strict=True):
            if self.pool.stamp(block) != claim:
                break
            self.pool.share(block)
            self._hold(block)
        self.rollback(min(len(self.prefix), len(self.table) * self.pool.block_size))

    def _drop_claims(self) -> None:
        if self._claims is not None:
            for block, claim in zip(self.table, self._claims, strict=True):
                self.pool.forget(block, claim)
            self.table, self._claims = [], None

    def _writes_into_shared(self) -> bool:
        index, place = divmod(len(self.prefix), self.pool.block_size)
        return place > 0 and self.pool.shared(self.table[index])

    def _make_writable(self) -> None:
        """The block of the next position, if it has content already, becomes this one's alone."""
        index, place = divmod(len(self.prefix), self.pool.block_size)
        if place == 0:
            return
        block, pool = self.table[index], self.pool
        if pool.shared(block) or (pool.sealed(block) and pool.available):
            own = pool.take()
            pool.copy(block, own)
            pool.statistics.copied_blocks += 1
            self.table[index] = own
            pool.release([block])
        else:
            pool.unseal(block)

    def _next_key(self, token_ids: SequenceOf[int]) -> bytes:
        return block_key(self.scope, self._keys[-1] if self._keys else b"", token_ids)

    def _hold(self, block: int) -> None:
        if not self.table:
            self.pool.holders[self] = None
        self.table.append(block)

    def _put(self, block: int, index: int) -> None:
        self.pool.share(block)
        if index < len(self.table):
            reserved, self.table[index] = self.table[index], block
            self.pool.release([reserved])
        else:
            self._hold(block)

    def _leave_if_empty(self) -> None:
        if not self.table:
            self.pool.holders.pop(self, None)


def _blocks(length: int, size: int) -> int:
    return -(-length // size)

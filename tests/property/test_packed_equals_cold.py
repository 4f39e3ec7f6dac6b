"""Random histories of sequences in one pool: every row is that of a cold forward of the same ids.

The models are real, tiny and in float64. What is compared with is transformers alone, without
cache, pool, batch or engine.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import pytest
import torch
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from outrider.engine.block_pool import OutOfBlocks
from outrider.engine.kv_layout_probe import probe_kv_layout
from outrider.engine.kv_pool import KvPool
from outrider.engine.model import Chunk, Sequence
from outrider.engine.transformers_model import TransformersModel
from outrider.testing.tiny_families import alone, tiny_family

FAMILIES = ("llama", "qwen3", "gpt2", "gemma2", "mistral_window", "mixtral", "gpt_oss")
SEEDS = (3, 4)
BLOCKS, BLOCK_SIZE = 14, 4
NUMBER = st.integers(0, 11)

# Few ids, so that sequences often have the same prefix.
ids = st.lists(st.integers(3, 4), min_size=1, max_size=11)


@lru_cache(maxsize=20_000)
def cold(name: str, seed: int, token_ids: tuple[int, ...]) -> torch.Tensor:
    """All rows of these ids, [ids, vocabulary]."""
    return alone(_reference(name, seed), list(token_ids))


@lru_cache
def _reference(name: str, seed: int) -> torch.nn.Module:
    return tiny_family(name, seed=seed)


@lru_cache
def _loaded(name: str, seed: int) -> torch.nn.Module:
    return tiny_family(name, seed=seed)


class Histories(RuleBasedStateMachine):
    """Sequences grow together, roll back, fork, share, give way and are read again."""

    family: ClassVar[str] = "llama"
    copies: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.live: list[Sequence] = []
        self.replays: list[list[int]] = []

    @initialize(seed=st.sampled_from(SEEDS))
    def load(self, seed: int) -> None:
        self.seed = seed
        loaded = _loaded(self.family, seed)
        layout = probe_kv_layout(loaded, block_size=BLOCK_SIZE)
        self.model = TransformersModel(loaded, kv=KvPool(layout, blocks=BLOCKS))
        for tensor in (*self.model.kv.keys, *self.model.kv.values):
            tensor[:BLOCKS] = torch.nan
        if not self.copies:
            self.model.pool.copy = lambda source, destination: None

    def pick(self, number: int) -> Sequence:
        return self.live[number % len(self.live)]

    def fitting(self, sequence: Sequence, token_ids: list[int]) -> list[int]:
        return token_ids[: self.model.context_length - len(sequence.prefix)]

    def read(self, chunks: list[Chunk]) -> None:
        before = [list(chunk.sequence.prefix.token_ids) for chunk in chunks]
        try:
            answers = self.model.forward(chunks)
        except OutOfBlocks:
            assert before == [list(chunk.sequence.prefix.token_ids) for chunk in chunks]
            return
        for chunk, rows in zip(chunks, answers, strict=True):
            expected = cold(self.family, self.seed, tuple(chunk.sequence.prefix.token_ids))
            torch.testing.assert_close(
                rows, expected[len(expected) - chunk.rows :], rtol=0, atol=1e-9
            )

    @rule()
    def new(self) -> None:
        if len(self.live) < 5:
            self.live.append(self.model.new_sequence())

    @precondition(lambda self: self.live)
    @rule(news=st.lists(st.tuples(NUMBER, ids, st.integers(0, 11)), min_size=1, max_size=4))
    def extend(self, news: list[tuple[int, list[int], int]]) -> None:
        chunks: dict[int, Chunk] = {}
        for number, token_ids, rows in news:
            sequence = self.pick(number)
            token_ids = self.fitting(sequence, token_ids)
            chunks[id(sequence)] = Chunk(sequence, token_ids, min(rows, len(token_ids)))
        self.read(list(chunks.values()))

    @precondition(lambda self: self.live)
    @rule(number=NUMBER, token_ids=ids)
    def adopt_then_extend(self, number: int, token_ids: list[int]) -> None:
        sequence = self.pick(number)
        token_ids = self.fitting(sequence, token_ids)
        free = sequence.adopt(token_ids[:-1])
        self.read([Chunk(sequence, token_ids[free:], len(token_ids) - free)])

    @precondition(lambda self: self.live)
    @rule(number=NUMBER, drop=st.integers(0, 12))
    def roll_back(self, number: int, drop: int) -> None:
        sequence = self.pick(number)
        sequence.rollback(max(0, len(sequence.prefix) - drop))

    @precondition(lambda self: self.live)
    @rule(number=NUMBER, drop=st.integers(0, 4))
    def seal(self, number: int, drop: int) -> None:
        sequence = self.pick(number)
        sequence.seal(max(0, len(sequence.prefix) - drop))

    @precondition(lambda self: self.live)
    @rule(number=NUMBER)
    def fork(self, number: int) -> None:
        if len(self.live) < 5:
            self.live.append(self.pick(number).fork())

    @precondition(lambda self: self.live)
    @rule(number=NUMBER)
    def give_way(self, number: int) -> None:
        self.replays.append(self.pick(number).preempt())

    @precondition(lambda self: self.live and self.replays)
    @rule(number=NUMBER)
    def replay(self, number: int) -> None:
        sequence, token_ids = self.pick(number), self.replays.pop()
        if token_ids:
            sequence.clear()
            free = sequence.adopt(token_ids[:-1])
            self.read([Chunk(sequence, token_ids[free:], 1)])


@pytest.mark.parametrize("family", FAMILIES)
def test_every_row_is_that_of_a_cold_forward(family: str) -> None:
    machine = type("Machine", (Histories,), {"family": family})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=10, stateful_step_count=25, deadline=None)
    )


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_row_is_that_of_a_cold_forward_in_long_histories(family: str) -> None:
    machine = type("Machine", (Histories,), {"family": family})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=150, stateful_step_count=60, deadline=None)
    )


def test_a_block_that_is_not_copied_when_written_is_found() -> None:
    machine = type("Machine", (Histories,), {"copies": False})
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=100,
                stateful_step_count=25,
                deadline=None,
                derandomize=True,
                phases=[Phase.generate],
                database=None,
            ),
        )

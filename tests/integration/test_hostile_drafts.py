"""Drafts that send what no draft would: the output is the target's, and memory has bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coordinator.draft_rounds import MAX_UNANSWERED
from coordinator.draft_tree import MAX_NODES, Arrival, DraftTree
from outrider.testing.scripted import TableModel, random_table
from outrider.v1 import common_pb2, draft_pb2
from tests.integration.coupled_requests import OFF, generate_all, seeded, way
from tests.integration.hostile_draft import Asked, Mischief, TreeSizes, hostile_cluster

Answers = Iterator[draft_pb2.DraftResponse]

PROMPT = [1, 2, 3]
LENGTH = 40
WAYS = [
    way(draft_length=3),
    way(draft_length=4, draft_ahead=False),
    way(draft_length=2, branches=4),
    way(),
]


def wrong_parents(asked: Asked) -> Answers:
    """On themselves, on each other, on tokens that never were."""
    tokens = asked.chain(4)
    for token in tokens[1:]:
        strange = [token.node_id, token.node_id + 1, 2**63, 0]
        token.parent_node_id = asked.random.choice(strange)
    yield asked.proposal(tokens)


def repeated_names(asked: Asked) -> Answers:
    """All tokens have one name, and follow it."""
    yield asked.proposal([asked.token(node_id=7, parent_node_id=7) for _ in range(4)])
    yield asked.proposal([asked.token(node_id=7), *asked.chain(3)])
    yield asked.proposal([asked.token(node_id=7, parent_node_id=asked.names) for _ in range(4)])


def guess_flood(asked: Asked) -> Answers:
    """Guesses upon guesses, a chain of each."""
    for _ in range(2):
        tokens = [asked.token(guess=True) for _ in range(100)]
        for _ in range(100):
            parent = asked.random.choice(tokens).node_id
            tokens.append(asked.token(parent_node_id=parent, guess=asked.random.random() < 0.7))
        yield asked.proposal(tokens)


def too_far(asked: Asked) -> Answers:
    """Beyond every limit."""
    yield asked.proposal(asked.chain(400))


def giant(asked: Asked) -> Answers:
    """One message of ten thousand."""
    if len(asked.rounds) == 2:
        tokens = asked.proposal([asked.token() for _ in range(100)]).proposal.tokens
        answer = asked.proposal([])
        for _ in range(100):
            answer.proposal.tokens.extend(tokens)
        yield answer


def old_rounds(asked: Asked) -> Answers:
    """Answers for rounds that are over, that are to come, and that never were."""
    tokens = asked.chain(3)
    for number in (0, 1, asked.rounds[0].number, asked.rounds[-1].number + 1, 2**32 - 1):
        for token in tokens:
            if token.HasField("root_round"):
                token.root_round = number
        yield asked.proposal(tokens, number=number, done=True)
    yield asked.proposal(asked.chain(3))


def two_drawn_children(asked: Asked) -> Answers:
    """Several tokens are drawn for every place, and each is gone on from."""
    tokens = [asked.token() for _ in range(4)]
    for parent in list(tokens):
        tokens += [asked.token(parent_node_id=parent.node_id) for _ in range(3)]
    yield asked.proposal(tokens)
    yield asked.proposal(list(reversed(tokens)))


def changing_laws(asked: Asked) -> Answers:
    """The same tokens again, with another law each time."""
    chain = asked.chain(3)
    for weight in (1, 60_000):
        for token in chain:
            token.distribution.weights[0] = weight
        yield asked.proposal(chain)
    for token in chain:
        token.point_mass.SetInParent()
    yield asked.proposal(chain, done=True)


def strange_states(asked: Asked) -> Answers:
    """States lost and rounds superseded in turn, with lengths that never were."""
    number = asked.rounds[-1].number
    lost = common_pb2.StateLost(kept_length=asked.random.choice([0, 1, 2**32 - 1]))
    yield draft_pb2.DraftResponse(round_number=number, state_lost=lost)
    yield draft_pb2.DraftResponse(round_number=number, superseded=common_pb2.Superseded())
    answer = asked.proposal(asked.chain(2), done=True)
    answer.proposal.handle.length = 2**32 - 1
    answer.proposal.timings.forward_us = 2**63
    yield answer


def nothing_at_length(asked: Asked) -> Answers:
    """Empty messages."""
    for _ in range(50):
        yield asked.proposal([])
        yield draft_pb2.DraftResponse(round_number=asked.rounds[-1].number)
        yield draft_pb2.DraftResponse()


def ids_of_another_vocabulary(asked: Asked) -> Answers:
    """Ids that the target does not know."""
    tokens = asked.chain(4)
    tokens[asked.random.randrange(4)].token_id = asked.random.choice([8, 2**31, 2**32 - 1])
    yield asked.proposal(tokens, done=True)


def silent(asked: Asked) -> Answers:
    """No answer ever."""
    yield from ()


def all_of_it(asked: Asked) -> Answers:
    """Any of the others."""
    yield from asked.random.choice([one for one in MISCHIEF if one is not all_of_it])(asked)


MISCHIEF: list[Mischief] = [
    wrong_parents,
    repeated_names,
    guess_flood,
    too_far,
    giant,
    old_rounds,
    two_drawn_children,
    changing_laws,
    strange_states,
    nothing_at_length,
    ids_of_another_vocabulary,
    silent,
    all_of_it,
]


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> TreeSizes:
    """Of the trees, from now on."""
    seen = TreeSizes()
    add: Callable[..., Arrival] = DraftTree.add

    def adding(self: DraftTree, token: common_pb2.DraftToken, **place: Any) -> Arrival:
        seen.look(self)
        return add(self, token, **place)

    monkeypatch.setattr(DraftTree, "add", adding)
    return seen


@pytest.mark.parametrize("mischief", MISCHIEF, ids=lambda mischief: mischief.__name__)
async def test_the_output_is_that_of_the_target_alone(mischief: Mischief, sizes: TreeSizes) -> None:
    target = TableModel(random_table(seed=1))
    async with hostile_cluster(target, mischief, draft_timeout_ms=50) as (cluster, hostile):
        for sampling in ({"temperature": 0.0}, {}):
            alone = await cluster.generate(seeded(PROMPT, OFF, length=LENGTH, **sampling))
            requests = [seeded(PROMPT, one, length=LENGTH, **sampling) for one in WAYS]
            async with asyncio.timeout(60):
                outputs = await generate_all(cluster, requests)
            for output in outputs:
                assert output.token_ids == alone.token_ids
                assert output.gapless
        if mischief is not silent:
            assert hostile.answers > 0
    assert sizes.nodes <= MAX_NODES
    assert sizes.names <= MAX_NODES
    assert sizes.passed <= MAX_NODES
    assert sizes.rounds <= MAX_UNANSWERED + 1

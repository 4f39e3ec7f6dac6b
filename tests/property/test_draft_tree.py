"""The draft tree against a model that never forgets: any order of rounds, arrivals and verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.draft_tree import Arrival, DraftTree
from outrider.prefix import TokenPrefix
from outrider.v1 import common_pb2

Ids = tuple[int, ...]
PROMPT: Ids = (9, 9)
LONGEST = 14
SIZE = 3
STEPS = ["round", "draft", "answer", "arrive", "output", "lose", *["draft", "arrive"] * 2]


@dataclass
class NaiveTree:
    """Whole sequences: which are known, which token was drawn first after each."""

    committed: Ids = PROMPT
    known: set[Ids] = field(default_factory=set)
    drawn: dict[Ids, Ids] = field(default_factory=dict)

    def add(self, parent: Ids, token_id: int, *, guess: bool) -> Arrival:
        sequence = (*parent, token_id)
        if len(parent) < len(self.committed):
            came_true = self.committed[: len(sequence)] == sequence
            return Arrival.CAME_TRUE if came_true else Arrival.CAME_FALSE
        if len(sequence) > LONGEST:
            return Arrival.STALE
        self.known.add(sequence)
        if not guess:
            self.drawn.setdefault(parent, sequence)
        return Arrival.KEPT

    def below(self) -> set[Ids]:
        length = len(self.committed)
        return {s for s in self.known if len(s) > length and s[:length] == self.committed}

    def chain(self) -> list[int]:
        sequence = self.committed
        while (longer := self.drawn.get(sequence)) is not None:
            sequence = longer
        return list(sequence[len(self.committed) :])


class Draft:
    """A draft that drafts anything below the prefixes it was told; its answers take their time."""

    def __init__(self) -> None:
        self.roots: dict[int, Ids] = {}
        self.nodes: dict[int, Ids] = {}
        self.sent: list[tuple[common_pb2.DraftToken, Ids] | int] = []
        self.names = 0
        self.length = 0

    @property
    def parents(self) -> list[int]:
        """What a token may still hang on: rounds, negative, and tokens."""
        rounds = [-number for number, root in self.roots.items() if len(root) >= self.length]
        return rounds + [name for name, node in self.nodes.items() if len(node) >= self.length]

    def reach(self, number: int) -> None:
        """Answers a round: what hangs above it comes no more."""
        self.length = max(self.length, len(self.roots[number]))
        self.sent.append(number)

    def draft(self, parent: int, token_id: int, *, guess: bool) -> None:
        """Hangs a token on a round (negative) or on another token; sends it."""
        self.names += 1
        token = common_pb2.DraftToken(node_id=self.names, token_id=token_id, guess=guess)
        if parent < 0:
            above, token.root_round = self.roots[-parent], -parent
        else:
            above, token.parent_node_id = self.nodes[parent], parent
        self.nodes[self.names] = (*above, token_id)
        self.sent.append((token, above))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_chain_is_always_that_of_the_naive_tree(data: st.DataObject) -> None:
    prefix = TokenPrefix(PROMPT)
    tree, naive, draft, number = DraftTree(prefix), NaiveTree(), Draft(), 0
    for _ in range(data.draw(st.integers(5, 60))):
        step = data.draw(st.sampled_from(STEPS))
        if step == "round":
            number += 1
            tree.begin_round(number)
            draft.roots[number] = tuple(prefix.token_ids)
        elif step == "answer" and draft.roots:
            draft.reach(data.draw(st.sampled_from(list(draft.roots))))
        elif step == "draft" and draft.parents:
            parent = data.draw(st.sampled_from(draft.parents))
            token_id = data.draw(st.integers(0, SIZE - 1))
            draft.draft(parent, token_id, guess=data.draw(st.booleans()))
        elif step == "arrive" and draft.sent:
            arrived = draft.sent.pop(0)
            if isinstance(arrived, int):
                tree.answered(arrived)
                continue
            token, above = arrived
            hangs = above in ({naive.committed} | naive.below()) or _passed(above, naive)
            expected = (
                naive.add(above, token.token_id, guess=token.guess) if hangs else Arrival.STALE
            )
            assert tree.add(token, until_length=LONGEST) is expected
        elif step == "output" and len(prefix) < LONGEST:
            foreseen = naive.chain()
            some = st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=3)
            output = data.draw(st.one_of(some, st.just(foreseen[:2] or [0])))
            steps = tree.advance(output)
            for token_id, found in zip(output, steps, strict=True):
                drawn = naive.drawn.get(naive.committed)
                naive.committed = (*naive.committed, token_id)
                assert found.drawn == (drawn is not None)
                assert found.foreseen == (naive.committed in naive.known)
                assert found.guess == (found.foreseen and drawn != naive.committed)
        elif step == "lose":
            tree.cut_off()
            draft = Draft()
        assert tuple(prefix.token_ids) == naive.committed
        assert [token.token_id for token in tree.chain(LONGEST)] == naive.chain()
        assert tree.depth == len(naive.chain())
        assert tree.size == len(naive.below())


def _passed(above: Ids, naive: NaiveTree) -> bool:
    """The output has gone through that sequence and beyond."""
    return len(above) < len(naive.committed) and naive.committed[: len(above)] == above

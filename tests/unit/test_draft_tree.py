"""The draft tree: what it keeps, what it lets go, and that it never grows without bound."""

from __future__ import annotations

import pytest

from coordinator.draft_tree import MAX_NODES, Arrival, DraftTree, Step
from outrider.prefix import TokenPrefix
from outrider.v1 import common_pb2

PROMPT = (1, 2, 3)
FAR = 1000


def first(name: int, token_id: int, *, of: int = 1, guess: bool = False) -> common_pb2.DraftToken:
    """A token that hangs from the root of a round."""
    return common_pb2.DraftToken(
        node_id=name,
        root_round=of,
        token_id=token_id,
        guess=guess,
        point_mass=common_pb2.PointMass(),
    )


def below(parent: int, name: int, token_id: int, *, guess: bool = False) -> common_pb2.DraftToken:
    """A token that continues another."""
    return common_pb2.DraftToken(
        node_id=name,
        parent_node_id=parent,
        token_id=token_id,
        guess=guess,
        point_mass=common_pb2.PointMass(),
    )


@pytest.fixture
def tree() -> DraftTree:
    """Empty, after a prompt, with round 1 begun."""
    tree = DraftTree(TokenPrefix(PROMPT))
    tree.begin_round(1)
    return tree


def add(tree: DraftTree, *tokens: common_pb2.DraftToken) -> list[Arrival]:
    return [tree.add(token, until_length=FAR) for token in tokens]


def ids(tree: DraftTree, limit: int = FAR) -> list[int]:
    return [token.token_id for token in tree.chain(limit)]


def test_the_chain_is_what_was_drawn_one_after_the_other(tree: DraftTree) -> None:
    assert add(tree, first(1, 10), below(1, 2, 11), below(2, 3, 12)) == [Arrival.KEPT] * 3
    assert ids(tree) == [10, 11, 12]
    assert ids(tree, 2) == [10, 11]
    assert tree.depth == tree.size == 3


def test_tokens_go_to_the_target_without_their_place(tree: DraftTree) -> None:
    add(tree, first(1, 10), below(1, 2, 11))
    bare = common_pb2.DraftToken(token_id=11, point_mass=common_pb2.PointMass())
    assert tree.chain(2)[1] == bare


def test_what_was_drafted_below_the_output_stays(tree: DraftTree) -> None:
    add(tree, first(1, 10), below(1, 2, 11), below(2, 3, 12), below(3, 4, 13))
    taken = Step(drawn=True, foreseen=True, guess=False)
    assert tree.advance([10, 11]) == [taken, taken]
    assert ids(tree) == [12, 13]
    assert tree.dropped == 0


def test_a_rejection_drops_what_hung_below_it(tree: DraftTree) -> None:
    add(tree, first(1, 10), below(1, 2, 11), below(2, 3, 12))
    assert tree.advance([10, 7])[-1] == Step(drawn=True, foreseen=False, guess=False)
    assert ids(tree) == []
    assert (tree.size, tree.dropped) == (0, 2)
    assert add(tree, below(3, 4, 13)) == [Arrival.STALE]


def test_a_correction_that_was_guessed_finds_its_continuation(tree: DraftTree) -> None:
    add(tree, first(1, 10), below(1, 2, 11), below(1, 3, 7, guess=True), below(3, 4, 20))
    assert ids(tree) == [10, 11]
    assert tree.advance([10, 7])[-1] == Step(drawn=True, foreseen=True, guess=True)
    assert tree.on_guess
    assert ids(tree) == [20]
    tree.advance([20])
    assert not tree.on_guess


def test_guesses_are_in_no_chain(tree: DraftTree) -> None:
    add(tree, first(1, 10, guess=True), below(1, 2, 11))
    assert ids(tree) == []
    assert tree.depth == 0


def test_a_guess_that_is_drawn_after_all_is_verified(tree: DraftTree) -> None:
    add(tree, first(1, 10, guess=True), below(1, 2, 11), first(3, 10))
    assert ids(tree) == [10, 11]
    assert tree.size == 2


def test_the_first_drawn_token_keeps_its_place(tree: DraftTree) -> None:
    add(tree, first(1, 10), below(1, 2, 11))
    again = first(3, 10)
    again.distribution.token_ids.append(10)
    assert add(tree, again, first(4, 12), below(4, 5, 13)) == [Arrival.KEPT] * 3
    assert ids(tree) == [10, 11]
    assert tree.chain(1)[0].HasField("point_mass")
    # The other one is there to be looked up.
    tree.advance([12])
    assert ids(tree) == [13]


def test_a_late_token_hangs_on_where_the_output_went_its_way(tree: DraftTree) -> None:
    tree.advance([10, 11])
    arrivals = add(tree, first(1, 10), below(1, 2, 11), below(2, 3, 12), below(3, 4, 13))
    assert arrivals == [Arrival.CAME_TRUE] * 2 + [Arrival.KEPT] * 2
    assert ids(tree) == [12, 13]


def test_a_late_token_is_stale_where_the_output_went_another_way(tree: DraftTree) -> None:
    tree.advance([10, 9])
    assert add(tree, first(1, 10), below(1, 2, 11), below(2, 3, 12)) == [
        Arrival.CAME_TRUE,
        Arrival.CAME_FALSE,
        Arrival.STALE,
    ]


def test_rounds_name_the_prefix_that_was_committed_then(tree: DraftTree) -> None:
    tree.advance([10])
    tree.begin_round(2)
    assert add(tree, first(1, 11, of=2), first(2, 99)) == [Arrival.KEPT, Arrival.CAME_FALSE]
    assert ids(tree) == [11]


def test_after_an_answer_nothing_hangs_on_earlier_rounds(tree: DraftTree) -> None:
    add(tree, first(1, 10), below(1, 2, 11))
    tree.advance([10, 11])
    tree.begin_round(2)
    tree.answered(2)
    assert add(tree, first(3, 10), below(1, 4, 11)) == [Arrival.STALE] * 2
    assert add(tree, below(2, 5, 12)) == [Arrival.KEPT]
    assert ids(tree) == [12]


def test_tokens_outlive_the_stream_that_brought_them(tree: DraftTree) -> None:
    add(tree, first(1, 10), below(1, 2, 11))
    tree.cut_off()
    assert ids(tree) == [10, 11]
    assert add(tree, below(2, 3, 12)) == [Arrival.STALE]
    tree.advance([10])
    tree.begin_round(1)
    # The new stream names its tokens anew, and draws the same one again.
    assert add(tree, first(1, 11), below(1, 2, 12)) == [Arrival.KEPT] * 2
    assert ids(tree) == [11, 12]


@pytest.mark.parametrize(
    "token",
    [
        common_pb2.DraftToken(),
        common_pb2.DraftToken(token_id=2**32 - 1),
        first(1, 10, of=0),
        first(1, 10, of=99),
        below(0, 1, 10),
        below(2**64 - 1, 1, 10),
        below(1, 1, 10),
    ],
)
def test_what_hangs_nowhere_is_not_kept(tree: DraftTree, token: common_pb2.DraftToken) -> None:
    assert add(tree, token) == [Arrival.STALE]
    assert tree.size == 0


def test_nothing_is_kept_beyond_what_was_asked_for(tree: DraftTree) -> None:
    length = len(PROMPT)
    assert tree.add(first(1, 10), until_length=length + 1) is Arrival.KEPT
    assert tree.add(below(1, 2, 11), until_length=length + 1) is Arrival.STALE
    assert ids(tree) == [10]


def test_a_draft_that_sends_without_end_is_not_kept(tree: DraftTree) -> None:
    for name in range(1, 2 * MAX_NODES):
        tree.add(first(name, name % 2, guess=True), until_length=FAR)
    assert tree.size == 2
    for name in range(2 * MAX_NODES, 4 * MAX_NODES):
        tree.add(first(name, name, guess=True), until_length=FAR)
    assert tree.size <= MAX_NODES
    tree.advance([0])
    assert tree.size == 0


def test_what_is_left_at_the_end_is_dropped(tree: DraftTree) -> None:
    add(tree, first(1, 10), below(1, 2, 11), first(3, 12, guess=True))
    tree.clear()
    assert (tree.size, tree.dropped, tree.depth) == (0, 3, 0)


def copied(token: common_pb2.DraftToken) -> common_pb2.DraftToken:
    """The same, copied."""
    token.copied = True
    return token


def test_which_tokens_of_the_chain_were_copied_is_known(tree: DraftTree) -> None:
    add(tree, first(1, 10), copied(below(1, 2, 11)), copied(below(2, 3, 12)), below(3, 4, 13))
    assert tree.copied(FAR) == [False, True, True, False]
    assert tree.copied(2) == [False, True]
    # The target is not told.
    assert not any(token.copied for token in tree.chain(FAR))


def test_a_run_of_copied_tokens_is_counted_as_they_come_true(tree: DraftTree) -> None:
    add(tree, *(copied(token) for token in (first(1, 10), below(1, 2, 11), below(2, 3, 12))))
    add(tree, below(3, 4, 13), copied(below(4, 5, 14)))
    steps = tree.advance([10, 11])
    assert [(step.copied, step.run) for step in steps] == [(True, 0), (True, 1)]
    assert tree.run == 2
    tree.advance([12])
    assert (tree.run, tree.advance([13])[0].copied, tree.run) == (3, False, 0)
    assert tree.advance([9])[0] == Step(drawn=True, foreseen=False, guess=False, copied=True, run=0)
    assert tree.run == 0
    tree.advance([8])
    assert tree.run == 0


def test_what_comes_for_a_guess_says_whether_it_was_copied(tree: DraftTree) -> None:
    add(tree, first(1, 10, guess=True), copied(first(2, 10)))
    assert tree.copied(FAR) == [True]

"""The draft's mirror of the coordinator's tree, against a list of all that was sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draft_service.alternatives import Alternative
from draft_service.mirror import Mirror
from draft_service.proposal import DraftedToken
from outrider.prefix import TokenPrefix

Ids = tuple[int, ...]
PROMPT: Ids = (1, 2)


def digest(ids: Ids) -> int:
    return TokenPrefix(ids).digest(len(ids))


ROOT = 1000
ALL = frozenset(range(3 * ROOT))
"""Names."""


def commit(mirror: Mirror, ids: Ids, *, name: int | None = ROOT) -> None:
    mirror.commit(length=len(ids), digest=digest(ids), name=name)


def chain_ids(mirror: Mirror) -> list[int]:
    return [token.token_id for token in mirror.chain]


def grown() -> Mirror:
    """5, 6 below the prompt, guess 7 beside 6 with 8 below it."""
    mirror = Mirror()
    commit(mirror, PROMPT)
    mirror.add(1, DraftedToken(5), parent=ROOT)
    mirror.add(2, DraftedToken(6, alternatives=(Alternative(7, 0.5),)), parent=1)
    mirror.add(3, DraftedToken(7), parent=1, guess=True)
    mirror.add(4, DraftedToken(8), parent=3)
    return mirror


def test_a_new_mirror_holds_nothing() -> None:
    mirror = Mirror()
    assert mirror.empty
    assert mirror.chain == mirror.names == []
    assert not mirror.goes_on(ALL, length=0, digest=digest(()))
    mirror.add(1, DraftedToken(5), parent=ROOT)
    assert mirror.empty


def test_the_chain_knows_what_was_sent_beside_it() -> None:
    mirror = grown()
    assert chain_ids(mirror) == [5, 6]
    assert mirror.names == [1, 2]
    assert [tuple(token.guesses) for token in mirror.chain] == [(), (7,)]
    assert mirror.chain[1].alternatives == (Alternative(7, 0.5),)


@pytest.mark.parametrize(
    ("output", "follows", "chain"),
    [
        ((), True, [5, 6]),
        ((5,), True, [6]),
        ((5, 6), True, []),
        ((5, 7), False, [8]),
        ((5, 7, 8), False, []),
        ((5, 9), False, []),
        ((6,), False, []),
        ((5, 6, 9), False, []),
    ],
)
def test_a_commit_moves_the_root(output: Ids, follows: bool, chain: list[int]) -> None:
    mirror = grown()
    ids = PROMPT + output
    assert mirror.goes_on(ALL, length=len(ids), digest=digest(ids)) == follows
    commit(mirror, ids, name=ROOT + 1)
    assert chain_ids(mirror) == chain
    mirror.add(9, DraftedToken(3), parent=ROOT + 1)
    assert chain_ids(mirror) == (chain or [3])


def test_a_late_token_hangs_where_it_was_drawn() -> None:
    """One that was drawn before a commit, and is told of after it."""
    mirror = grown()
    commit(mirror, (*PROMPT, 5), name=ROOT + 1)
    mirror.add(9, DraftedToken(3), parent=ROOT)
    assert chain_ids(mirror) == [6]
    mirror.add(10, DraftedToken(3), parent=2)
    assert chain_ids(mirror) == [6, 3]


def test_a_token_that_is_sent_again_has_both_names() -> None:
    mirror = grown()
    mirror.add(9, DraftedToken(5), parent=ROOT)
    mirror.add(10, DraftedToken(6), parent=9)
    mirror.add(11, DraftedToken(7), parent=9, guess=True)
    mirror.add(12, DraftedToken(4), parent=11)
    assert mirror.names == [1, 2]
    commit(mirror, (*PROMPT, 5), name=None)
    mirror.add(13, DraftedToken(2), parent=10)
    assert chain_ids(mirror) == [6, 2]
    commit(mirror, (*PROMPT, 5, 7), name=None)
    assert chain_ids(mirror) == [8]


def test_a_chain_is_gone_on_from_where_it_has_one_of_the_names() -> None:
    mirror = grown()
    five, six = (*PROMPT, 5), (*PROMPT, 5, 6)
    assert mirror.goes_on(frozenset(), length=len(PROMPT), digest=digest(PROMPT))
    assert mirror.goes_on(frozenset({1}), length=3, digest=digest(five))
    assert not mirror.goes_on(frozenset({1}), length=4, digest=digest(six))
    mirror.add(12, DraftedToken(6), parent=1)
    assert mirror.goes_on(frozenset({12}), length=4, digest=digest(six))


def test_a_token_below_what_is_forgotten_is_not_kept() -> None:
    mirror = grown()
    commit(mirror, (*PROMPT, 5, 6))
    mirror.add(9, DraftedToken(1), parent=4)
    mirror.add(10, DraftedToken(2), parent=9)
    assert mirror.chain == []


actions = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 40), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("commit"), st.integers(0, 40), st.lists(st.integers(0, 3), max_size=2)),
    ),
    max_size=60,
)


@given(actions)
def test_the_mirror_is_what_was_sent_below_the_committed_ids(steps: list[tuple]) -> None:
    mirror, root = Mirror(), PROMPT
    commit(mirror, root)
    paths: dict[int, Ids] = {ROOT: root}
    drawn: dict[Ids, int] = {}
    for name, step in enumerate(steps, start=1):
        known = [each for each, path in paths.items() if path[: len(root)] == root]
        if step[0] == "add":
            parent = known[step[1] % len(known)]
            path = (*paths[parent], step[2])
            taken = any(path[:-1] == other[:-1] for other in drawn)
            if path in paths.values() or (taken and not step[3]):
                continue
            mirror.add(name, DraftedToken(step[2]), parent=parent, guess=step[3])
            paths[name] = path
            if not step[3]:
                drawn[path] = name
        else:
            root = (*paths[known[step[1] % len(known)]], *step[2])
            commit(mirror, root, name=ROOT + name)
            paths = {name: path for name, path in paths.items() if path[: len(root)] == root}
            paths[ROOT + name] = root
        drawn = {path: name for path, name in drawn.items() if path[: len(root)] == root}
        expected, below = [], root
        while following := [path for path in drawn if path[:-1] == below and path != root]:
            below = following[0]
            expected.append(drawn[below])
        assert mirror.names == expected
        for path in drawn:
            follows = path == below[: len(path)] and len(path) >= len(root)
            assert mirror.goes_on(ALL, length=len(path), digest=digest(path)) == follows

"""A suffix automaton over token ids: where the end of a text came before, however long it is.

It grows by an id in constant amortised time (Blumer et al., 1985,
https://doi.org/10.1016/0304-3975(85)90157-4), and may hold several texts that grow in turns (Mohri,
Moreno and Weinstein, 2009, https://doi.org/10.1016/j.tcs.2009.03.034); drafting from one is by Hu
et al., 2024, https://arxiv.org/abs/2411.10666. What followed the *latest* earlier occurrence is
what is told: text that is being edited follows its new wording.
"""

from __future__ import annotations

from array import array

REMEMBERED = 32
"""Of the ends of a text, so many are told what came behind them last; the shorter ones keep what
came before that."""

ROOT = 0
"""The state of the empty text."""

_NOTHING = -1


class SuffixAutomaton:
    """All pieces of its texts, in states: those of one state end at the same places.

    Most states are followed by one id only, so what follows first is kept apart: that takes a third
    of the memory, about 0.1 KB for each id.
    """

    def __init__(self) -> None:
        self._first_id = array("i", [_NOTHING])
        self._first = array("i", [_NOTHING])
        self._others: dict[int, dict[int, int]] = {}
        self._link = array("i", [_NOTHING])
        self._length = array("i", [0])
        self._after = array("i", [_NOTHING])

    def __len__(self) -> int:
        """States: at most two for each id."""
        return len(self._link)

    def extend(self, end: int, token_id: int) -> int:
        """One more id behind the text that ends in the state `end`; the state that it ends in now.

        A new text ends in ROOT.
        """
        self._remember(end, token_id)
        if self._next(end, token_id) >= 0:
            return self._followed(end, token_id)
        state = self._new_state(self._length[end] + 1)
        before = end
        while before >= 0 and self._next(before, token_id) < 0:
            self._lead(before, token_id, state)
            before = self._link[before]
        self._link[state] = self._followed(before, token_id) if before >= 0 else ROOT
        return state

    def _followed(self, state: int, token_id: int) -> int:
        """The state of the longest piece of `state` with that id behind it.

        Where it shares one with longer pieces, it gets one of its own.
        """
        found = self._next(state, token_id)
        length = self._length[state] + 1
        if self._length[found] == length:
            return found
        twin = self._new_state(length)
        self._first_id[twin], self._first[twin] = self._first_id[found], self._first[found]
        if found in self._others:
            self._others[twin] = self._others[found].copy()
        self._after[twin] = self._after[found]
        self._link[twin] = self._link[found]
        self._link[found] = twin
        while state >= 0 and self._next(state, token_id) == found:
            self._lead(state, token_id, twin)
            state = self._link[state]
        return twin

    def _next(self, state: int, token_id: int) -> int:
        """Where that id leads to; below 0: nowhere."""
        if self._first_id[state] == token_id:
            return self._first[state]
        others = self._others.get(state)
        return _NOTHING if others is None else others.get(token_id, _NOTHING)

    def _lead(self, state: int, token_id: int, to: int) -> None:
        if self._first_id[state] in (_NOTHING, token_id):
            self._first_id[state], self._first[state] = token_id, to
        else:
            self._others.setdefault(state, {})[token_id] = to

    def _remember(self, end: int, token_id: int) -> None:
        """What is behind the pieces that end there, from now on."""
        for _ in range(REMEMBERED):
            if end <= ROOT:
                return
            self._after[end] = token_id
            end = self._link[end]

    def _new_state(self, length: int) -> int:
        self._first_id.append(_NOTHING)
        self._first.append(_NOTHING)
        self._link.append(ROOT)
        self._length.append(length)
        self._after.append(_NOTHING)
        return len(self._link) - 1


class Cursor:
    """The longest end of some text that occurs in an automaton, which may grow meanwhile."""

    __slots__ = ("_automaton", "_length", "_state")

    def __init__(self, automaton: SuffixAutomaton, state: int = ROOT) -> None:
        """At the end of the automaton's own text that ends in `state`; ROOT: of no text yet."""
        self._automaton = automaton
        self._state = state
        self._length = automaton._length[state]

    @property
    def length(self) -> int:
        """Of that end."""
        return self._length

    def copy(self) -> Cursor:
        """Another one at the same place."""
        twin = Cursor(self._automaton)
        twin._state, twin._length = self._state, self._length
        return twin

    def advance(self, token_id: int) -> None:
        """The text goes on by an id."""
        self._settle()
        automaton, state, length = self._automaton, self._state, self._length
        while (found := automaton._next(state, token_id)) < 0 and state:
            state = automaton._link[state]
            length = automaton._length[state]
        if found < 0:
            self._state, self._length = ROOT, 0
        else:
            self._state, self._length = found, length + 1

    def following(self) -> tuple[int, int] | None:
        """The id behind the latest occurrence that has one, and how many ids before it agree.

        Of the longest end with such an occurrence, which is 1 or more; None: there is none.
        """
        self._settle()
        automaton, state, length = self._automaton, self._state, self._length
        while state:
            after = automaton._after[state]
            if after >= 0:
                return after, length
            state = automaton._link[state]
            length = automaton._length[state]
        return None

    def _settle(self) -> None:
        """A state that was split since holds longer pieces only."""
        link, length = self._automaton._link, self._automaton._length
        while self._state and self._length <= length[link[self._state]]:
            self._state = link[self._state]

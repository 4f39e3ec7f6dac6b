"""Outputs of the recent generations of one cache scope, to be copied from.

An output tells something of the draws that decided it. Where the same seed decides another
generation, a draft that knows the first output would know of those draws, and point masses are
exact only as long as it does not. So nobody reads what another generation of the same seed wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from draft_service.suffix_automaton import ROOT, Cursor, SuffixAutomaton


class Writer:
    """A generation that writes and reads. `seed`: of its draws; None: they decide no output."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed


class RecentTexts:
    """Two volumes that take turns: when the newer one is full it becomes the older one."""

    def __init__(self, *, most_ids: int) -> None:
        """`most_ids`: of both volumes together."""
        self._most_ids = most_ids
        self._newer, self._older = _Volume(), _Volume()

    def write(self, writer: Writer, token_id: int) -> None:
        """One more id of a generation's output."""
        self._turn_over()
        self._newer.write(writer, token_id)

    def ends(self, writer: Writer, token_ids: Sequence[int]) -> list[Cursor]:
        """The end of a text in each volume that may be read; `token_ids` are the last of it."""
        self._turn_over()
        volumes = (self._newer, self._older)
        ends = [Cursor(volume.automaton) for volume in volumes if volume.admits(writer)]
        for end in ends:
            for token_id in token_ids:
                end.advance(token_id)
        return ends

    def _turn_over(self) -> None:
        """Readers take room too, whether they ever write or not, and are known for as long as what
        they may have read is there."""
        if max(self._newer.ids, self._newer.readers) >= max(1, self._most_ids // 2):
            self._older, self._newer = self._newer, _Volume()


class _Volume:
    def __init__(self) -> None:
        self.ids = 0
        self.automaton = SuffixAutomaton()
        self._ends: dict[Writer, int] = {}
        self._admitted: dict[int, Writer] = {}

    @property
    def readers(self) -> int:
        """Seeds of generations that have read it."""
        return len(self._admitted)

    def admits(self, writer: Writer) -> bool:
        """Only the first of those with one seed: the others neither read nor write."""
        seed = writer.seed
        return seed is None or self._admitted.setdefault(seed, writer) is writer

    def write(self, writer: Writer, token_id: int) -> None:
        if self.admits(writer):
            end = self._ends.get(writer, ROOT)
            self._ends[writer] = self.automaton.extend(end, token_id)
            self.ids += 1

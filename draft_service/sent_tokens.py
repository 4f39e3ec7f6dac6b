"""Names the tokens of one stream as they are sent, and remembers what may be gone on from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draft_service.draft_job import DraftResult, KnownToken
from draft_service.messages import token_message
from draft_service.mirror import Mirror
from outrider.v1 import common_pb2


@dataclass(frozen=True, slots=True)
class _Begun:
    """A job's names: of what was committed, and of its tokens by their numbers; `own` has the
    latter as a set."""

    round_number: int
    committed_length: int
    root: int
    names: list[int]
    own: set[int]


class SentTokens:
    """What was sent, job by job.

    A job that takes the place of another begins before all of that one's tokens are sent: each is
    hung where it was drawn.
    """

    def __init__(self) -> None:
        self._mirror = Mirror()
        self._begun: dict[int, _Begun] = {}
        self._last_name = 0
        self.serial = 0
        """Of the last job."""

    @property
    def chain(self) -> Sequence[KnownToken]:
        """The drawn tokens that follow what is committed."""
        return self._mirror.chain

    def begin(self, round_number: int, *, length: int, digest: int | None) -> None:
        """A job begins from that committed prefix; `digest` None: nothing is known of it."""
        root = self._new_name()
        if digest is None:
            self._mirror.clear()
        else:
            self._mirror.commit(length=length, digest=digest, name=root)
        self.serial += 1
        names = self._mirror.names
        self._begun[self.serial] = _Begun(round_number, length, root, names, set(names))

    def follows(self, *, length: int, digest: int) -> bool:
        """Whether that prefix ends on the chain of the last job, as far as it was sent.

        What the job before it sent meanwhile is not on it, unless both chose the same token.
        """
        begun = self._begun.get(self.serial)
        own = begun.own if begun is not None else frozenset()
        return self._mirror.goes_on(own, length=length, digest=digest)

    def commit(self, *, length: int, digest: int) -> None:
        """The last job goes on from that prefix, which follows."""
        self._mirror.commit(length=length, digest=digest)

    def send(self, result: DraftResult) -> list[common_pb2.DraftToken]:
        """The messages of drafted tokens."""
        for serial in [serial for serial in self._begun if serial < result.serial]:
            del self._begun[serial]
        job, digest = self._begun[result.serial], result.committed_digest
        if self._mirror.empty and result.serial == self.serial and digest is not None:
            self._mirror.commit(length=job.committed_length, digest=digest, name=job.root)
        messages = []
        for each in result.tokens:
            name = self._new_name()
            message = token_message(each.token, node_id=name)
            message.guess = each.guess
            if each.parent is None:
                parent = job.root
                message.root_round = job.round_number
            else:
                parent = message.parent_node_id = job.names[each.parent]
            job.names.append(name)
            job.own.add(name)
            self._mirror.add(name, each.token, parent=parent, guess=each.guess)
            messages.append(message)
        return messages

    def clear(self) -> None:
        """Nothing that was sent is gone on from."""
        self._mirror.clear()

    def _new_name(self) -> int:
        self._last_name += 1
        return self._last_name

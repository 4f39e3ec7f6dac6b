"""What the model thread is asked to draft, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draft_service.alternatives import Alternative
from draft_service.proposal import DraftedToken, DraftRule
from draft_service.reach import Reach
from outrider.engine.sampling_options import SamplingOptions


@dataclass(frozen=True, slots=True)
class DraftTerms:
    """What an Open fixes for all rounds of its stream.

    `derived_seed` None: drafts are greedy, whatever the options say. Ids from
    `vocabulary_size` on are never proposed; committed ids go up to `committed_vocabulary_size`,
    the target's, which may be more than the draft's model knows.
    """

    options: SamplingOptions
    rule: DraftRule
    derived_seed: int | None
    prompt_length: int
    vocabulary_size: int
    committed_vocabulary_size: int

    @property
    def output_needs_no_draft(self) -> bool:
        """The output is the same whatever is drafted."""
        return self.options.greedy or self.rule is DraftRule.COUPLED

    @property
    def by_chance(self) -> bool:
        """A drawn token is more than a function of the ids before it."""
        return not self.output_needs_no_draft and self.derived_seed is not None


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token that was drafted in an earlier round; of its `alternatives`, `guesses` were sent."""

    token_id: int
    alternatives: Sequence[Alternative] = ()
    guesses: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class DraftJob:
    """One round: the tokens committed after `base_length`, and how far to draft.

    `serial` rises with each job of a stream. `known`: the chain that was drafted below the
    committed tokens in earlier rounds.
    """

    serial: int
    handle_id: str
    owner: str
    terms: DraftTerms
    base_length: int
    prefix_digest: int
    committed_token_ids: Sequence[int]
    known: Sequence[KnownToken]
    reach: Reach

    @property
    def committed_length(self) -> int:
        """All committed ids."""
        return self.base_length + len(self.committed_token_ids)

    @property
    def token_ids(self) -> list[int]:
        """All ids after `base_length`."""
        return [*self.committed_token_ids, *(token.token_id for token in self.known)]


@dataclass(frozen=True, slots=True)
class TreeToken:
    """A drafted token and where it hangs.

    Tokens of a job are numbered from 0, the known ones first. `parent`: the number of the one
    before it; None: it follows the ids that were committed when the job began.
    """

    token: DraftedToken
    parent: int | None
    guess: bool = False


class TreeTokens:
    """Numbers the tokens of a job, and keeps them until they are answered."""

    def __init__(self, *, known: int) -> None:
        self._count = known
        self._unanswered: list[TreeToken] = []

    def add(self, token: DraftedToken, *, parent: int | None, guess: bool = False) -> int:
        """Its number."""
        self._unanswered.append(TreeToken(token, parent, guess))
        self._count += 1
        return self._count - 1

    def __len__(self) -> int:
        return len(self._unanswered)

    def take(self) -> list[TreeToken]:
        """Those since the last time."""
        tokens, self._unanswered = self._unanswered, []
        return tokens


@dataclass(frozen=True, slots=True)
class DraftResult:
    """Tokens in draw order, since the answer before.

    They answer the round `number`, by the job `serial`. `kept_length`: so many leading ids need not
    be sent again, since they have KV state or are kept for being copied. `committed_digest`: of the
    ids that were committed when the job began; None before the first token. `replaced`: the job
    ends here for another one.
    """

    number: int
    serial: int
    tokens: Sequence[TreeToken]
    kept_length: int
    committed_digest: int | None = None
    replaced: bool = False

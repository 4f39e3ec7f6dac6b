"""Draft and target in one process: the production rule over tables, without models or network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from draft_service.proposal import CandidateCut, Proposer
from outrider.draft_law import POINT_MASS, CutLaw
from outrider.engine.columns import Columns
from outrider.engine.penalties import changes_logits
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.shaping import target_probs
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, derive_seed, draw_word
from outrider.testing.exactness.decoding import Request, Round
from outrider.testing.exactness.tables import TablePair
from target_service.draft_check import ProposedToken, check_drafts
from target_service.judgement import Judgement
from target_service.rejection import judge


@dataclass(frozen=True, slots=True)
class Schedule:
    """What each round looks like, from its number alone: never from a token's value.

    Draft lengths and bonuses take turns. Each `replay_every`-th round is judged, its verdict is
    lost, and it is judged again with another draft length; 0: never.
    """

    draft_lengths: Sequence[int] = (3, 1, 0, 2)
    bonuses: Sequence[bool] = (True, False, True)
    replay_every: int = 5

    def draft_length(self, number: int) -> int:
        """Draft tokens in a round."""
        return self.draft_lengths[number % len(self.draft_lengths)]

    def want_bonus(self, number: int) -> bool:
        """Whether a round without draft tokens, or one fully accepted, draws one token more."""
        return self.bonuses[number % len(self.bonuses)]

    def replayed(self, number: int) -> bool:
        """Whether the first verdict of a round is lost."""
        return self.replay_every > 0 and number % self.replay_every == self.replay_every - 1


@dataclass(frozen=True)
class InProcessDecoder:
    """Decodes round by round with the production functions; shaped laws are memoised.

    One decoder serves requests of one set of options. Its steps are methods so that a test can
    plant a fault in one of them.
    """

    draft_purpose: ClassVar[Purpose] = Purpose.DRAFT

    pair: TablePair
    options: SamplingOptions = field(default_factory=SamplingOptions)
    cut: CandidateCut = field(default_factory=CandidateCut)
    schedule: Schedule = field(default_factory=Schedule)
    _laws: dict[object, CutLaw | int] = field(default_factory=dict)
    _rows: dict[object, torch.Tensor] = field(default_factory=dict)

    def __call__(self, requests: Sequence[Request]) -> Iterator[Sequence[Round]]:
        """One generation after the other."""
        return map(self.decode, requests)

    @torch.inference_mode()
    def decode(self, request: Request) -> Sequence[Round]:
        """Rounds until there are max_new_tokens or more; what is too much is cut off."""
        if request.options != self.options:
            raise ValueError("this decoder was made for other sampling options")
        prefix = TokenPrefix(request.prompt_token_ids)
        end = len(prefix) + request.max_new_tokens
        rounds: list[Round] = []
        # Generations begin at different points of the schedule.
        number = 0 if request.seed is None else request.seed % len(self.schedule.draft_lengths)
        while len(prefix) < end:
            one = self.round(request, prefix, number, rounds)
            output = one.output_token_ids[: end - len(prefix)]
            rounds.append(Round(one.draft_length, one.accepted, output, one.replayed))
            prefix.extend(output)
            number += 1
        return rounds

    def round(
        self, request: Request, prefix: TokenPrefix, number: int, before: Sequence[Round]
    ) -> Round:
        """One round after `prefix`. `before`: the rounds so far."""
        length = self.schedule.draft_length(number)
        want_bonus = self.schedule.want_bonus(number)
        replayed = self.schedule.replayed(number)
        if replayed:
            lost = self.propose(request, prefix, length)
            self.judge(request, prefix, lost, want_bonus=want_bonus)
            length = self.schedule.draft_length(number + 1)
        drafts = self.propose(request, prefix, length)
        judgement = self.judge(request, prefix, drafts, want_bonus=want_bonus)
        return Round(len(drafts), judgement.accepted, judgement.output_token_ids, replayed)

    def propose(
        self, request: Request, prefix: TokenPrefix, length: int
    ) -> Sequence[ProposedToken]:
        """`length` draft tokens after `prefix`."""
        seed = derive_seed(self.draft_purpose, seed=seed_of(request), choice_index=0)
        committed_length = len(prefix)
        drafts: list[ProposedToken] = []
        for _ in range(length):
            drafts.append(self.draw(request, prefix, seed))
            prefix.extend((drafts[-1].token_id,))
        prefix.truncate(committed_length)
        return drafts

    def draw(self, request: Request, prefix: TokenPrefix, seed: int) -> ProposedToken:
        """The draft token to follow `prefix`."""
        law = self.draft_law(request, prefix)
        if isinstance(law, int):
            return ProposedToken(law, POINT_MASS)
        position = len(prefix)
        word = draw_word(seed, position=position, digest=prefix.digest(position))
        return ProposedToken(law.draw(word), law)

    def judge(
        self,
        request: Request,
        prefix: TokenPrefix,
        drafts: Sequence[ProposedToken],
        *,
        want_bonus: bool,
    ) -> Judgement:
        """The target's verdict on draft tokens after `prefix`."""
        self.check(request, prefix, drafts)
        position = len(prefix)
        return judge(
            self.rows(request, prefix, [draft.token_id for draft in drafts]),
            drafts,
            seed=seed_of(request),
            choice_index=0,
            position=position,
            digest=prefix.digest(position),
            want_bonus=want_bonus or not drafts,
            stop_token_ids=(),
        )

    def check(self, request: Request, prefix: TokenPrefix, drafts: Sequence[ProposedToken]) -> None:
        """The target's check, which the tokens of an honest draft always pass."""
        position = len(prefix)
        invalid = check_drafts(
            drafts,
            position=position,
            digest=prefix.digest(position),
            draft_seed=derive_seed(Purpose.DRAFT, seed=seed_of(request), choice_index=0),
            vocabulary_size=self.pair.vocabulary_size,
            greedy=self.options.greedy,
        )
        if invalid is not None:
            raise AssertionError(f"the draft's own token does not pass: {invalid}")

    def draft_law(self, request: Request, prefix: TokenPrefix) -> CutLaw | int:
        """The law of the draft token after `prefix`, or that token when it is a point mass."""
        key = self._key(prefix)
        if key not in self._laws:
            proposer = Proposer(
                self.draft_options(),
                Columns(self.pair.vocabulary_size),
                prompt_length=len(request.prompt_token_ids),
                derived_seed=0,
                cut=self.cut,
            )
            (drafted,) = proposer.tokens([self.pair.draft_logits(prefix.token_ids)], [prefix])
            law = drafted.law
            self._laws[key] = law if isinstance(law, CutLaw) else drafted.token_id
        return self._laws[key]

    def draft_options(self) -> SamplingOptions:
        """How the draft shapes its law."""
        return self.options

    def rows(self, request: Request, prefix: TokenPrefix, draft_ids: Sequence[int]) -> torch.Tensor:
        """p after `prefix` and each of the draft tokens: [drafts + 1, vocabulary]."""
        key = self._key(prefix), tuple(draft_ids)
        if key not in self._rows:
            token_ids = [*prefix.token_ids, *draft_ids]
            ends = range(len(prefix), len(token_ids) + 1)
            logits = torch.stack([self.pair.target_logits(token_ids[:end]) for end in ends])
            self._rows[key] = self.shape(request, logits, prefix, draft_ids)
        return self._rows[key]

    def shape(
        self,
        request: Request,
        logits: torch.Tensor,
        prefix: TokenPrefix,
        draft_ids: Sequence[int],
    ) -> torch.Tensor:
        """The target's shaping of all rows of a round."""
        return target_probs(
            logits,
            self.options,
            columns=Columns(self.pair.vocabulary_size),
            token_ids=prefix.token_ids,
            draft_token_ids=draft_ids,
            prompt_length=len(request.prompt_token_ids),
        )

    def _key(self, prefix: TokenPrefix) -> object:
        """What the laws after `prefix` depend on."""
        history = prefix.token_ids if changes_logits(self.options) else prefix.token_ids[-2:]
        return tuple(history)


class UntrustedDecoder(InProcessDecoder):
    """Every draft token is judged as a point mass, as those of a pool that is not trusted.

    The draft has no seed that the target's draws could be guessed from; it proposes the most
    likely token.
    """

    def draw(self, request: Request, prefix: TokenPrefix, seed: int) -> ProposedToken:
        """The draft's most likely token, as a point mass."""
        law: CutLaw | int = self.draft_law(request, prefix)
        return ProposedToken(law if isinstance(law, int) else law.token_ids[0], POINT_MASS)


def seed_of(request: Request) -> int:
    """The seed of a request. Raises ValueError where it brings none."""
    if request.seed is None:
        raise ValueError("the decoder in process needs requests with seeds")
    return request.seed

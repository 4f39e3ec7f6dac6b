"""What the policy and the decode loop tell each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_RUN = 32
"""Tokens that a target may be ahead when it decodes alone: enough to hide round trips, little
enough to waste."""


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """How the next round is to be made.

    `draft_length`: most draft tokens to verify; 0: the target decodes alone, `run` further tokens
    without being asked for each. `ahead`: how many tokens the draft goes on beyond them; with
    `draft_length` 0 it may draft all the same, to see whether it would have been right. Where both
    are 0 the draft is left alone. `together`: the first so many tokens come in one message, those
    after them one by one; 0: all that are to be verified. `branches`: most side branches that grow
    at a time, each of `branch_length` tokens. `acceptance`: what the draft chooses places for them
    by. `copies`: so many tokens beyond all these the draft may copy. Of copied tokens that follow
    the first `draft_length` some are verified too: how many is asked when they are there. With
    `draft_length` 0 they take the place of the run, where they lie ready or come while the first
    `together` are waited for.
    """

    draft_length: int
    ahead: int = 0
    together: int = 0
    branches: int = 0
    branch_length: int = 0
    acceptance: float = 0.0
    run: int = 0
    copies: int = 0


@dataclass(frozen=True, slots=True)
class Copying:
    """What a draft that copies has to offer for the next round.

    `draws`: it has a model, too. `ready`: so many copied tokens, one after the other, lie right
    below the committed prefix. `run`: so many of the last output tokens copied ones had foreseen.
    """

    draws: bool
    ready: int = 0
    run: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Before a round.

    `offset`: output tokens so far. `room`: most draft tokens that can still become output.
    `draft_ready`: there is a draft that fits and answers. `ready`: tokens that lie below the
    committed prefix already. `copying`: None where the draft does not copy.
    """

    offset: int
    room: int
    draft_ready: bool
    ready: int = 0
    copying: Copying | None = None


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """What one decided round showed. Times in seconds.

    `drafted`, `accepted`, `output`: tokens. `verify_s`: from sending the round to its verdict, of
    which the target reported `queue_s` in its queue and `model_s` in forward and sampling.
    `wait_s`: how long the round waited for draft tokens before. `batch_size`: generations that
    shared the forward. `price` as in Verdict. `in_run`: the token came without being asked for,
    `verify_s` after the one before. `ready`: all draft tokens were there already. `guess`: they
    hung below a side branch. `replayed`: the target had lost the state and read the prefix again.
    `copied`: which of the drafted tokens were copied, as were the `run` output tokens right before
    them; `copies_alone`: nothing else was wanted.
    """

    drafted: int
    accepted: int
    output: int
    verify_s: float
    model_s: float
    queue_s: float
    wait_s: float = 0.0
    batch_size: int = 1
    price: float = 0.0
    in_run: bool = False
    ready: bool = False
    guess: bool = False
    replayed: bool = False
    copied: Sequence[bool] = ()
    run: int = 0
    copies_alone: bool = False


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """What one proposal showed. Times in seconds.

    `tokens` were drafted, side branches included but for the guesses they begin with, over `steps`
    forwards of the draft, which reported `model_s` for them and `queue_s` in its queue.
    `round_trip_s`: from sending the committed ids to the arrival of the first tokens below them,
    the draft's own time taken off; None when the proposal did not have to wait for that. `copied`:
    how many copied tokens it had right below the committed ids, where there were none and nothing
    else was asked for; else None.
    """

    tokens: int
    steps: int
    model_s: float
    queue_s: float
    round_trip_s: float | None = None
    copied: int | None = None


@dataclass(frozen=True, slots=True)
class ForesightFacts:
    """Whether the draft foresaw a token that the target chose without judging it.

    Such a token is a bonus, a recovered token, or one that the target decoded alone, at a place
    for which the draft had one; `matched`: it was this one. `copied`: the draft's was copied, as
    were the `run` output tokens right before it, if that is known.
    """

    matched: bool
    copied: bool = False
    run: int | None = None


@dataclass(frozen=True, slots=True)
class SpeculationTerms:
    """What a generation's request and its deployment leave to the policy.

    `may_stop`: speculation is turned off while it does not pay (mode AUTO). `draft_length`,
    `branches`, `copies`: fixed, or None to be chosen. `bonus_free`: the target's own choice does
    not depend on the draft (greedy or COUPLED), so a bonus costs nothing and a match means what an
    acceptance means. `patience_s`: longest wait for draft tokens of one round.
    """

    max_draft_length: int
    may_stop: bool = True
    draft_length: int | None = None
    draft_ahead: bool = True
    branches: int | None = None
    copies: int | None = None
    bonus_free: bool = False
    patience_s: float = 0.25

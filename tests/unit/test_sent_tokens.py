"""What may be gone on from when one job took the place of another."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from draft_service.draft_job import DraftResult, TreeToken
from draft_service.proposal import DraftedToken
from draft_service.sent_tokens import SentTokens
from outrider.prefix import TokenPrefix

PROMPT = (1, 2)
LENGTH = 4


def digest(*token_ids: int) -> int:
    return TokenPrefix(token_ids).digest(len(token_ids))


def begin(sent: SentTokens, *output: int) -> None:
    sent.begin(sent.serial + 1, length=2 + len(output), digest=digest(*PROMPT, *output))


def send(sent: SentTokens, serial: int, tokens: Sequence[TreeToken]) -> None:
    sent.send(DraftResult(serial, serial, tokens, kept_length=2))


def test_the_last_jobs_own_tokens_are_gone_on_from() -> None:
    sent = SentTokens()
    begin(sent)
    send(sent, 1, [TreeToken(DraftedToken(5), None), TreeToken(DraftedToken(6), 0)])
    assert sent.follows(length=LENGTH, digest=digest(*PROMPT, 5, 6))
    assert not sent.follows(length=LENGTH, digest=digest(*PROMPT, 5, 7))


@pytest.mark.parametrize(("own", "follows"), [(40, False), (1, True)])
def test_what_the_job_before_sent_late_is_no_token_of_the_next_one(own: int, follows: bool) -> None:
    """The next one may have copied another token there: it would go on from what is not its own."""
    sent = SentTokens()
    begin(sent)
    drawn, guess = TreeToken(DraftedToken(8), None), TreeToken(DraftedToken(0), None, guess=True)
    send(sent, 1, [drawn, guess])
    begin(sent, 0)
    # In flight while the second job began: a token below the guess.
    send(sent, 1, [TreeToken(DraftedToken(1), 1)])
    assert not sent.follows(length=LENGTH, digest=digest(*PROMPT, 0, 1))
    send(sent, 2, [TreeToken(DraftedToken(own), None)])
    assert sent.follows(length=LENGTH, digest=digest(*PROMPT, 0, 1)) == follows
    assert sent.follows(length=LENGTH - 1, digest=digest(*PROMPT, 0))

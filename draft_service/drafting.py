"""One draft round as work for the model thread: a forward for each draft token."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import structlog

from draft_service.proposal import CandidateCut, DraftedToken, draw_token
from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.model import Chunk, Model, Sequence
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.work import Work

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DraftTerms:
    """What an Open fixes for all rounds of its stream.

    `derived_seed` None: drafts are greedy, whatever the options say. Ids from
    `vocabulary_size` on are never proposed; committed ids go up to `committed_vocabulary_size`,
    the target's, which may be more than the draft's model knows.
    """

    options: SamplingOptions
    derived_seed: int | None
    prompt_length: int
    vocabulary_size: int
    committed_vocabulary_size: int


@dataclass(frozen=True, slots=True)
class DraftJob:
    """One round: the tokens committed after `base_length`, and how far to draft."""

    handle_id: str
    owner: str
    terms: DraftTerms
    base_length: int
    prefix_digest: int
    committed_token_ids: SequenceOf[int]
    until_length: int


@dataclass(frozen=True, slots=True)
class DraftResult:
    """Draft tokens in draw order. `kept_length` is how many leading ids have KV state now."""

    tokens: SequenceOf[DraftedToken]
    kept_length: int


def draft(
    job: DraftJob, *, model: Model, handles: HandleTable, cut: CandidateCut
) -> Work[DraftResult | StateLost]:
    """Reads the committed tokens and drafts below them, one token after the other.

    The number of tokens depends on lengths alone. The last token is not read by a forward: it
    comes back as a committed one if it is accepted. When a later token cannot be had, the ones
    already drawn are given all the same: holding one back for what follows it would bias the
    output.
    """
    with handles.working_on(
        job.handle_id,
        owner=job.owner,
        base_length=job.base_length,
        prefix_digest=job.prefix_digest,
    ) as sequence:
        if isinstance(sequence, StateLost):
            return sequence
        return (yield from _draft_below(job, model=model, sequence=sequence, cut=cut))


def _draft_below(
    job: DraftJob, *, model: Model, sequence: Sequence, cut: CandidateCut
) -> Work[DraftResult]:
    committed_length = job.base_length + len(job.committed_token_ids)
    tokens: list[DraftedToken] = []
    if job.until_length <= committed_length:
        yield Chunk(sequence, job.committed_token_ids, rows=0, final=len(job.committed_token_ids))
    pending, final = list(job.committed_token_ids), len(job.committed_token_ids)
    while committed_length + len(tokens) < job.until_length:
        try:
            rows = yield Chunk(sequence, pending, rows=1, final=final)
            token = draw_token(
                rows[0],
                job.terms.options,
                columns=model.columns,
                prefix=sequence.prefix,
                prompt_length=job.terms.prompt_length,
                derived_seed=job.terms.derived_seed,
                vocabulary_size=job.terms.vocabulary_size,
                cut=cut,
            )
        except Exception as error:
            if not tokens:
                raise
            log.warning("a draft ended early", tokens=len(tokens), error=type(error).__name__)
            break
        tokens.append(token)
        pending, final = [token.token_id], 0
    return DraftResult(tokens, len(sequence.prefix))

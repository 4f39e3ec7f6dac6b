"""Verification as work for the model thread: one forward, then the verdict.

A round may be the first of a run: the target goes on decoding alone, one token and one answer per
forward. Every token is then a round of its own without draft tokens, so it is the token that
single rounds give.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import replace

import torch

from outrider.engine.columns import Columns
from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.model import Chunk, Model, Sequence
from outrider.engine.shaping import target_probs
from outrider.engine.work import Answer, Work
from outrider.prefix import extend_digest
from outrider.randomness import Purpose, derive_seed
from target_service import coupled, rejection
from target_service.draft_check import InvalidDraft, ProposedToken, check_drafts, check_ids
from target_service.expectation import expected_acceptance
from target_service.judgement import Judgement, Rule
from target_service.verify_job import VerdictResult, VerifyJob


def verify(
    job: VerifyJob, *, model: Model, handles: HandleTable
) -> Work[VerdictResult | StateLost]:
    """Judges the drafts of one round; a pure function of tokens, laws, sampling and seed.

    Drafts that fail their check are set aside and the round is decided as if it had none.
    Afterwards the sequence holds the committed and the accepted tokens. A run answers each token
    and ends at its limit, at a stop id or where the context is full.
    """
    with handles.working_on(
        job.handle_id,
        owner=job.owner,
        base_length=job.base_length,
        prefix_digest=job.prefix_digest,
    ) as sequence:
        if isinstance(sequence, StateLost):
            return sequence
        if job.until_length == 0:
            return (yield from _judge_round(job, model=model, sequence=sequence))
        return (yield from _run(job, model=model, handles=handles, sequence=sequence))


def _run(
    job: VerifyJob, *, model: Model, handles: HandleTable, sequence: Sequence
) -> Work[VerdictResult]:
    limits, stops = handles.run_limits, job.terms.options.stop_token_ids
    limits[job.owner] = job.until_length
    try:
        while True:
            result = yield from _judge_round(job, model=model, sequence=sequence)
            length = result.kept_length + 1
            full = length > model.context_length
            if full or length >= limits[job.owner] or result.output_token_ids[-1] in stops:
                return result
            yield Answer(result)
            job = replace(
                job,
                base_length=result.kept_length,
                prefix_digest=sequence.prefix.digest(result.kept_length),
                committed_token_ids=result.output_token_ids,
            )
    finally:
        del limits[job.owner]


def _judge_round(job: VerifyJob, *, model: Model, sequence: Sequence) -> Work[VerdictResult]:
    terms = job.terms
    invalid = _check(job, model.vocabulary_size) if job.drafts else None
    drafts = () if invalid else job.drafts
    draft_ids = [draft.token_id for draft in drafts]
    rows = yield Chunk(
        sequence,
        [*job.committed_token_ids, *draft_ids],
        rows=len(drafts) + 1,
        final=len(job.committed_token_ids),
    )
    want_bonus = job.want_bonus or not drafts
    if len(rows) <= len(drafts):
        # The model goes wrong behind a draft token, which may well be rejected.
        drafts, want_bonus = drafts[: len(rows)], False
    probs = target_probs(
        rows,
        terms.options,
        columns=model.columns,
        token_ids=sequence.prefix.token_ids[: job.position],
        draft_token_ids=draft_ids[: len(rows) - 1],
        prompt_length=terms.prompt_length,
    )
    digest = sequence.prefix.digest(job.position)
    judgement = _judge(
        job, probs, drafts, columns=model.columns, digest=digest, want_bonus=want_bonus
    )
    kept_length = job.position + judgement.accepted
    sequence.rollback(kept_length)
    return VerdictResult(
        judgement.accepted,
        judgement.output_token_ids,
        kept_length,
        invalid,
        _expected(terms.rule, judgement, drafts=drafts, probs=probs),
    )


def _expected(
    rule: Rule, judgement: Judgement, *, drafts: SequenceOf[ProposedToken], probs: torch.Tensor
) -> SequenceOf[float]:
    if rule is Rule.COUPLED:
        return ()
    # Each judged draft token gave one of the output: itself, or what was drawn in its place.
    return expected_acceptance(probs, drafts[: len(judgement.output_token_ids)])


def _judge(
    job: VerifyJob,
    probs: torch.Tensor,
    drafts: SequenceOf[ProposedToken],
    *,
    columns: Columns,
    digest: int,
    want_bonus: bool,
) -> Judgement:
    terms = job.terms
    if terms.rule is Rule.COUPLED:
        return coupled.judge(
            probs,
            drafts,
            columns=columns,
            seed=terms.seed,
            choice_index=terms.choice_index,
            position=job.position,
            stop_token_ids=terms.options.stop_token_ids,
        )
    return rejection.judge(
        probs,
        drafts,
        seed=terms.seed,
        choice_index=terms.choice_index,
        position=job.position,
        digest=digest,
        want_bonus=want_bonus,
        stop_token_ids=terms.options.stop_token_ids,
    )


def _check(job: VerifyJob, vocabulary_size: int) -> InvalidDraft | None:
    terms, digest = job.terms, job.prefix_digest
    if terms.rule is Rule.COUPLED:
        return check_ids(job.drafts, position=job.position, vocabulary_size=vocabulary_size)
    for token_id in job.committed_token_ids:
        digest = extend_digest(digest, token_id)
    return check_drafts(
        job.drafts,
        position=job.position,
        digest=digest,
        draft_seed=derive_seed(Purpose.DRAFT, seed=terms.seed, choice_index=terms.choice_index),
        vocabulary_size=vocabulary_size,
        greedy=terms.options.greedy,
    )

"""Tables for people: what a generation did, and what the pools are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from outrider.cli.figures import NOTHING, duration, number, percent
from outrider.cli.plain import enum_word
from outrider.cli.speculation import SpeculationFigures
from outrider.v1 import generation_pb2, model_pb2

REPLICA_DIGITS = 8
NO_NUMBERS = "none"
"""What a worker without weights calls their type."""


def generation_table(summary: generation_pb2.GenerationSummary) -> Table:
    """Counts and times of one generation."""
    table = Table(show_header=False, box=box.SIMPLE, pad_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("figure")
    for what, figure in _generation_rows(summary):
        table.add_row(Text(what), Text(figure))
    return table


def _generation_rows(
    summary: generation_pb2.GenerationSummary,
) -> Iterator[tuple[str, str]]:
    stats = summary.speculation
    figures = SpeculationFigures(stats)
    finish = enum_word(generation_pb2.FinishReason.DESCRIPTOR, summary.finish_reason)
    yield "model", summary.model
    yield "prompt tokens", str(summary.usage.prompt_tokens)
    yield "output tokens", f"{summary.usage.output_tokens} (ended by {finish})"
    yield "rounds", f"{stats.rounds}, {stats.drafted_rounds} of them with draft tokens"
    yield "draft tokens", f"{stats.draft_tokens} drafted, {stats.accepted_tokens} accepted"
    if stats.copied_tokens:
        copied = f"{stats.copied_tokens} of them, {stats.accepted_copied_tokens} accepted"
        yield "copied tokens", copied
    yield "acceptance rate", percent(figures.acceptance)
    by_position = "  ".join(percent(share) for share in figures.acceptance_by_position)
    yield "accepted per position", by_position or NOTHING
    yield "tokens per round", number(stats.mean_output_tokens_per_round, digits=2)
    yield "tokens per second", f"{number(figures.tokens_per_s)} after the first token"
    yield "time to first token", f"{stats.time_to_first_token_ms:.0f} ms"
    for what, total_ms in (
        ("draft at work", stats.draft_ms),
        ("of that, waited for", stats.draft_wait_ms),
        ("time in verify", stats.verify_ms),
        ("time in hops", stats.hop_ms),
        ("time in queues", stats.queue_ms),
    ):
        mean_ms = number(figures.per_round(total_ms), digits=2)
        yield what, f"{total_ms:.1f} ms, {mean_ms} ms per round"
    for what, size in (
        ("to and from targets", stats.target_bytes),
        ("to and from drafts", stats.draft_bytes),
    ):
        yield what, f"{size} bytes, {number(figures.per_round(size))} per round"
    for what, count in (
        ("rounds with drafts ready", stats.ready_rounds),
        ("corrections foreseen", stats.foreseen_rounds),
        ("rounds without their draft", stats.draft_missed_rounds),
        ("rounds with invalid drafts", stats.draft_invalid_rounds),
        ("proposals dropped whole", stats.stale_proposals),
        ("draft tokens dropped", stats.dropped_tokens),
        ("prefixes sent again", stats.replays),
    ):
        if count:
            yield what, str(count)
    for change in stats.changes:
        yield f"from token {change.offset}", f"draft length {change.draft_length}: {change.reason}"
    yield "seed", str(summary.seed)
    yield "repeats exactly with this seed", "yes" if summary.reproducible else "not promised"
    if summary.trace_id:
        yield "trace", summary.trace_id


def coordinator_line(
    address: str, state: generation_pb2.GenerationServiceGetStatusResponse
) -> Text:
    """One line about the coordinator itself."""
    mode = enum_word(generation_pb2.SpeculationMode.DESCRIPTOR, state.speculation_mode)
    rate = percent(SpeculationFigures(state.speculation).acceptance)
    chosen = str(state.draft_length) if state.HasField("draft_length") else "auto"
    return Text(
        f"coordinator {address}, version {state.build_version}, up {duration(state.uptime_s)}: "
        f"{state.running} running, {state.waiting} waiting, {state.finished} finished, "
        f"{state.refused} refused, acceptance {rate}, "
        f"speculation {mode}, draft length {chosen}"
    )


def policy_table(policy: generation_pb2.PolicyStatus) -> Table:
    """What the coordinator measured of its pools and chooses by."""
    table = Table(show_header=False, box=box.SIMPLE, pad_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("figure")
    for what, figure in _policy_rows(policy):
        table.add_row(Text(what), Text(figure))
    return table


def _policy_rows(policy: generation_pb2.PolicyStatus) -> Iterator[tuple[str, str]]:
    # The figures behind the reason are those of that moment; the rows below are of now.
    yield "draft length", f"{policy.draft_length} ({policy.reason.partition(':')[0]})"
    if policy.survival:
        yield "accepted up to place", _percents(policy.survival)
        yield "draft token", f"{policy.draft_token_ms:.2f} ms"
        yield "draft round trip", f"{policy.draft_round_trip_ms:.2f} ms"
        verify_ms, row_ms = policy.verify_ms, policy.verify_row_ms
        yield "verification", f"{verify_ms:.2f} ms and {row_ms:.2f} ms per token"
    if policy.copied_survival:
        yield "copies accepted up to place", _percents(policy.copied_survival)
    yield "decoding alone", f"{policy.plain_step_ms:.2f} ms per token"
    yield "times turned off or on", str(policy.switches)


def _percents(shares: Sequence[float]) -> str:
    return "  ".join(percent(share) for share in shares)


def worker_table(state: generation_pb2.GenerationServiceGetStatusResponse) -> Table:
    """One row for each worker of both pools."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("pool", "address", "state", "model", "replica"):
        table.add_column(heading, overflow="fold")
    for pool, workers in (("target", state.targets), ("draft", state.drafts)):
        for worker in workers:
            table.add_row(Text(pool), *(Text(cell) for cell in _worker_cells(worker)))
    return table


def _worker_cells(worker: generation_pb2.WorkerStatus) -> Iterator[str]:
    yield worker.address
    if worker.usable:
        yield "serving"
    else:
        yield worker.reason or ("not usable" if worker.reachable else "unreachable")
    if not worker.HasField("model"):
        return
    yield _model_words(worker.model)
    yield worker.model.replica_id[:REPLICA_DIGITS]


def _model_words(model: model_pb2.GetModelResponse) -> str:
    """Without numbers where there are no weights; with how a draft comes by its tokens."""
    numbers = model.dtype if model.dtype != NO_NUMBERS else ""
    words = " ".join(word for word in (model.name, numbers, model.device) if word)
    return f"{words}, {model.drafter}" if model.drafter else words

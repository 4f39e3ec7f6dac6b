"""One benchmark against one coordinator: measured, written down and shown, however it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from outrider.bench.load import BrokenOutputError, Load, PutPrompt
from outrider.bench.measurement import Measurements, measure
from outrider.bench.page.report import html_report
from outrider.bench.plan import BenchPlan
from outrider.bench.prompts import Prompt
from outrider.bench.result import Terms, result, to_json
from outrider.bench.subject import subject
from outrider.bench.table import report
from outrider.bench.whole_file import write_whole
from outrider.cli.bench_progress import BenchProgress
from outrider.cli.bench_subject import BenchSubject, form_of_prompts, ready_state
from outrider.cli.plain import plain
from outrider.cli.signals import StopRequest
from outrider.cli.terminal import ExitCode, answers, notice
from outrider.client import Client, ClientError, client_error
from outrider.rpc.api_keys import key_metadata
from outrider.rpc.channel import open_channel
from outrider.v1 import common_pb2, generation_pb2, generation_pb2_grpc


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """What to measure, and where the result goes."""

    plan: BenchPlan
    prompts: Sequence[Prompt]
    prompt_words: str
    sampling: common_pb2.SamplingParams
    json_file: Path
    command: str
    api_key: str | None = field(default=None, repr=False)

    @property
    def html_file(self) -> Path:
        """Beside the JSON file."""
        return self.json_file.with_suffix(".html")


def run_bench(run: BenchRun, where: BenchSubject) -> ExitCode:
    """Measures until the plan is done, a request fails or Ctrl-C. What there is then is kept.

    Raises ClientError when a failure came before anything was measured, and OSError when a file
    cannot be written.
    """
    others = []
    for address in where.drafters.values():
        with Client(address, tls=where.tls, api_key=run.api_key) as client:
            others.append(ready_state(client))
    with Client(where.address, tls=where.tls, api_key=run.api_key) as client:
        state = ready_state(client)
        known = {draft.address for draft in state.drafts}
        state.drafts.extend(
            draft for other in others for draft in other.drafts if draft.address not in known
        )
        _warn_of_fixed_length(run.plan, state)
        put_prompt = form_of_prompts(client, _tell_fallback)
    measurements = Measurements(run.plan.settings)
    code, stopped = ExitCode.OK, ""
    with StopRequest() as stop:
        try:
            asyncio.run(_measure(run, where, put_prompt, into=measurements, stop=stop))
        except asyncio.CancelledError:
            code, stopped = ExitCode.INTERRUPTED, "interrupted"
        except grpc.RpcError as error:
            code, stopped = ExitCode.FAILED, str(client_error(error, where.address, begun=True))
        except BrokenOutputError as error:
            code, stopped = ExitCode.FAILED, str(error)
        if measurements.turns:
            _publish(run, where, measurements, state=state, stopped=stopped)
        elif code is ExitCode.FAILED:
            raise ClientError(stopped)
        else:
            notice("Interrupted before the first turn was complete: there is nothing to keep.")
    return code


async def _measure(
    run: BenchRun,
    where: BenchSubject,
    put_prompt: PutPrompt,
    *,
    into: Measurements,
    stop: StopRequest,
) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101

    def cancel() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    stop.tell(cancel)
    async with AsyncExitStack() as stack:
        channels = {
            drafter: await stack.enter_async_context(open_channel(address, where.tls))
            for drafter, address in {"": where.address, **where.drafters}.items()
        }
        load = Load(
            {
                drafter: generation_pb2_grpc.GenerationServiceStub(channel)
                for drafter, channel in channels.items()
            },
            run.prompts,
            sampling=run.sampling,
            put_prompt=put_prompt,
            metadata=key_metadata(run.api_key or ""),
        )
        progress = BenchProgress()
        with progress.shown:
            await measure(
                run.plan,
                load,
                into=into,
                listener=progress,
                set_round_trip=where.set_round_trip,
            )


def _publish(
    run: BenchRun,
    where: BenchSubject,
    measurements: Measurements,
    *,
    state: generation_pb2.GenerationServiceGetStatusResponse,
    stopped: str,
) -> None:
    terms = Terms(
        made_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        command=run.command,
        prompts=run.prompt_words,
        sampling=plain(run.sampling),
        max_new_tokens=run.plan.max_new_tokens,
        settings=[setting.name for setting in run.plan.settings],
    )
    found = result(
        measurements, terms=terms, subject=subject(where.address, state), stopped=stopped
    )
    write_whole(run.json_file, to_json(found))
    write_whole(run.html_file, html_report(found))
    if stopped:
        notice(f"Stopped before the end ({stopped}). Every complete turn is kept.")
    for part in report(found):
        answers().print(part)
    notice(f"Figures: {run.json_file}. Report: {run.html_file}.")


def _warn_of_fixed_length(
    plan: BenchPlan, state: generation_pb2.GenerationServiceGetStatusResponse
) -> None:
    if state.HasField("draft_length") and any(
        setting.speculates and setting.draft_length is None for setting in plan.settings
    ):
        notice(
            f"This coordinator has a draft length of its own, {state.draft_length}: "
            "`auto` measures that one."
        )


def _tell_fallback() -> None:
    notice("The model has no chat template: prompts are continued as plain text.")

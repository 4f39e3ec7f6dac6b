"""`outrider bench`: speculation against the same target without it."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import typer

from outrider.bench.plan import BenchPlan, Budget
from outrider.bench.prompts import KINDS, Prompt, PromptFileError, built_in, read_prompts
from outrider.bench.setting import AUTO, Setting, parse_settings, with_drafters
from outrider.bench.whole_file import check_writable
from outrider.cli import bench_lists, bench_options, options, speculation_options
from outrider.cli.bench_run import BenchRun, run_bench
from outrider.cli.bench_subject import BenchSubject, own_pair, running_coordinator
from outrider.cli.deployment import ServiceEndedError
from outrider.cli.flags import flag_name, was_given
from outrider.cli.options import without_keys
from outrider.cli.pair import ComparedDraft, PairOptions, nothing_to_propose, usable_cores
from outrider.cli.request import SamplingOptions
from outrider.cli.signals import stop_signals
from outrider.cli.terminal import ExitCode, fail, leave_broken_pipe
from outrider.cli.verification import Verification, VerificationChoice
from outrider.client import ClientError
from outrider.rpc.tls import TlsFiles
from outrider.settings import SettingsError

OF_OWN_PAIR = (
    *("target_model", "draft_model", "drafter", "dtype", "device", "threads", "pin"),
    "round_trip_ms",
)
"""What only a pair started here can be told."""


def bench(
    context: typer.Context,
    server: bench_options.Server = None,
    draft_length: bench_options.DraftLengths = AUTO,
    drafter: bench_options.Drafters = "",
    draft_ahead: speculation_options.DraftAhead = None,
    draft_branches: speculation_options.DraftBranches = None,
    copies: speculation_options.Copies = None,
    concurrency: bench_options.Concurrency = "1,2,4,8",
    kind: bench_options.Kind = ",".join(KINDS),
    prompts: bench_options.PromptFile = None,
    max_new_tokens: bench_options.MaxNewTokens = 64,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    seed: options.Seed = None,
    verification: Verification = VerificationChoice.AUTO,
    seconds: bench_options.Seconds = None,
    requests: bench_options.Requests = None,
    out: bench_options.Out = None,
    round_trip_ms: bench_options.RoundTrips = "",
    target_model: options.TargetModel = "embedded",
    draft_model: options.DraftModel = "embedded",
    dtype: options.Dtype = None,
    device: options.Device = None,
    threads: options.Threads = None,
    pin: bench_options.Pin = False,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    api_key: options.ApiKey = None,
) -> None:
    """Measure whether speculation pays.

    The same prompts with the same sampling, with speculation and without it, in turns. Ends with a
    table, a verdict and a recommended setting; Ctrl-C keeps what was measured.
    """
    if server is not None:
        server = options.first_address(server)
        _refuse_options_of_own_pair(context)
    try:
        speculating = [
            replace(
                setting,
                draft_ahead=draft_ahead,
                branches=draft_branches,
                copies=speculation_options.fixed_length(
                    speculation_options.draft_length_choice(copies)
                ),
            )
            for setting in parse_settings(draft_length)
        ]
        drafters = bench_lists.drafters(drafter, draft_model)
    except ValueError as error:
        fault = f"must be {error}, got {draft_length!r}"
        raise typer.BadParameter(fault, param_hint="--draft-length") from None
    _refuse_drafts_with_nothing_to_propose(speculating, drafters)
    trips = bench_lists.round_trips_ms(round_trip_ms)
    if seconds is None and requests is None:
        seconds = bench_options.DEFAULT_SECONDS
    plan = BenchPlan(
        speculating=with_drafters(speculating, [one.label for one in drafters]),
        concurrencies=bench_lists.concurrencies(concurrency),
        round_trips_ms=trips,
        max_new_tokens=max_new_tokens,
        budget=Budget(seconds=seconds, requests=requests),
    )
    sampling = SamplingOptions(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
        verification=verification,
    )
    chosen, prompt_words = _prompts(prompts, bench_lists.kinds(kind))
    run = BenchRun(
        plan=plan,
        prompts=chosen,
        prompt_words=prompt_words,
        sampling=sampling.to_message(),
        json_file=_json_file(out),
        command=shlex.join(["outrider", *without_keys(sys.argv[1:])]),
        api_key=api_key,
    )
    if server is not None:
        subject: AbstractContextManager[BenchSubject] = nullcontext(
            running_coordinator(server, TlsFiles(tls_cert, tls_key, tls_ca))
        )
    else:
        subject = own_pair(
            PairOptions(
                target_model=target_model,
                draft_model=draft_model,
                dtype=dtype,
                device=device,
                threads=threads,
                draft_length="auto",
                drafters=drafters,
                # Prompts come again in every turn: their outputs would be copied from.
                copy_recent=0,
                pinned_cores=_cores() if pin else (),
            ),
            trips,
        )
    raise typer.Exit(_run(run, subject))


def _run(run: BenchRun, subject: AbstractContextManager[BenchSubject]) -> ExitCode:
    try:
        with stop_signals(), subject as where:
            return run_bench(run, where)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        leave_broken_pipe()
    except SettingsError as error:
        fail(str(error), ExitCode.USAGE)
    except (ServiceEndedError, ClientError, OSError) as error:
        fail(str(error))


def _refuse_options_of_own_pair(context: typer.Context) -> None:
    for name in OF_OWN_PAIR:
        if was_given(context, name):
            why = "there the draft stays where it is" if name == "round_trip_ms" else "it runs"
            fail(
                f"{flag_name(name)} does not go with --server ({why} already): without --server, "
                "bench starts a pair of its own",
                ExitCode.USAGE,
            )


def _refuse_drafts_with_nothing_to_propose(
    settings: Sequence[Setting], drafters: Sequence[ComparedDraft]
) -> None:
    ways = [one.way for one in drafters]
    for one in settings:
        for fault in nothing_to_propose(ways, draft_length=one.draft_length, copies=one.copies):
            fail(fault, ExitCode.USAGE)


def _prompts(file: Path | None, kinds: Sequence[str]) -> tuple[list[Prompt], str]:
    """The prompts, and which they are in words."""
    if file is None:
        found = built_in(kinds)
        return found, f"{len(found)} built in ({', '.join(kinds)})"
    try:
        found = read_prompts(file)
    except PromptFileError as error:
        fail(str(error), ExitCode.USAGE)
    return found, f"{len(found)} of {file}"


def _json_file(out: Path | None) -> Path:
    """Where the result goes; found out before anything is measured."""
    path = out or Path(time.strftime("outrider-bench-%Y%m%d-%H%M%S.json"))
    if path.suffix != ".json":
        fail(f"--out must end in .json, got {path}", ExitCode.USAGE)
    try:
        check_writable(path)
        check_writable(path.with_suffix(".html"))
    except OSError as error:
        fail(f"--out {path} cannot be written: {error.strerror or error}", ExitCode.USAGE)
    return path


def _cores() -> list[int]:
    cores = usable_cores()
    if len(cores) == 1:
        fail("--pin needs two cores, this machine lets the command use one", ExitCode.USAGE)
    return cores

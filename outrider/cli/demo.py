"""`outrider demo`: the whole system on this machine, shown and measured in two minutes."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from outrider.cli import options
from outrider.cli.comparison import Comparer, Comparison, RunOptions, Task, comparison_table
from outrider.cli.deployment import Deployment, ServiceEndedError
from outrider.cli.pair import PairOptions, start_pair
from outrider.cli.progress import StartProgress
from outrider.cli.request import SamplingOptions
from outrider.cli.signals import stop_signals
from outrider.cli.speculation_options import AUTO, DraftLength, draft_length_choice
from outrider.cli.terminal import (
    ExitCode,
    TextOutput,
    answers,
    fail,
    leave_broken_pipe,
    notice,
)
from outrider.cli.verification import VerificationChoice
from outrider.client import Client, ClientError
from outrider.settings import SettingsError

TASKS = (
    Task("code", "Write a Python function that returns the first n prime numbers."),
    Task("explanation", "Explain why the sky is blue."),
    Task("story", "Tell a short story about a lighthouse keeper and a storm."),
)
SEED = 1
WARM_UP_TOKENS = 16
PAIRING_TIMEOUT_S = 20.0
GREEDY_UP_TO = 1e-5
HALF_PRECISION = ("bfloat16", "float16")


def demo(
    temperature: Annotated[
        float, typer.Option(metavar="0..100", help="Divides the logits; 0 is greedy.")
    ] = 0.0,
    max_new_tokens: Annotated[
        int, typer.Option(metavar="N", min=2, help="Most output tokens of each run.")
    ] = 96,
    draft_length: DraftLength = AUTO,
    target_model: options.TargetModel = "embedded",
    draft_model: options.DraftModel = "embedded",
    dtype: options.Dtype = None,
    threads: options.Threads = None,
) -> None:
    """Run it all, answer three prompts, compare, stop.

    Each prompt is answered twice on the same servers, first with draft tokens and at once again
    by the target alone, after a warm-up of both. Speeds leave out the first token.
    """
    pair_options = PairOptions(
        target_model=target_model, draft_model=draft_model, dtype=dtype, threads=threads
    )
    run_options = RunOptions(
        sampling=SamplingOptions(
            temperature=temperature, seed=SEED, verification=VerificationChoice.REJECTION
        ),
        max_new_tokens=max_new_tokens,
        draft_length=draft_length_choice(draft_length),
    )
    run_folder = Path(tempfile.mkdtemp(prefix="outrider-demo-"))
    try:
        with stop_signals(), Deployment(run_folder, progress := StartProgress()) as deployment:
            with progress:
                pair = start_pair(deployment, pair_options)
            with Client(pair.coordinator, tls=pair.tls) as client:
                _wait_for_draft(client)
                comparisons = _compare(client, run_options)
                dtype_used = client.status().targets[0].model.dtype
        answers().print(comparison_table(comparisons))
        answers().print(Text(_terms(run_options, dtype=dtype_used)))
        answers().print(Text(_verdict(comparisons, temperature=temperature, dtype=dtype_used)))
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        leave_broken_pipe()
    except SettingsError as error:
        fail(str(error), ExitCode.USAGE)
    except (ServiceEndedError, ClientError, OSError) as error:
        fail(f"{error}\nLogs: {run_folder}")
    shutil.rmtree(run_folder)


def _wait_for_draft(client: Client) -> None:
    """The coordinator pairs the draft within moments of its start; goes on without it if not."""
    deadline = time.monotonic() + PAIRING_TIMEOUT_S
    while time.monotonic() < deadline:
        drafts = client.status().drafts
        if drafts and drafts[0].usable:
            return
        time.sleep(0.2)
    notice("The draft is not usable: both runs are by the target alone. See outrider status.")


def _compare(client: Client, run_options: RunOptions) -> list[Comparison]:
    notice("Warming up …")
    warm_up = Comparer(client, replace(run_options, max_new_tokens=WARM_UP_TOKENS))
    warm_up.with_draft(TASKS[0], lambda _: None)
    warm_up.target_only(TASKS[0])
    comparer = Comparer(client, run_options)
    comparisons = []
    for task in TASKS:
        output = TextOutput(sys.stdout)
        output.write(f"\n── {task.name}: {task.prompt}\n\n")
        with_draft = comparer.with_draft(task, output.write)
        output.write("\n")
        notice("Again, by the target alone …")
        comparisons.append(Comparison(task, with_draft, comparer.target_only(task)))
    output.write("\n")
    return comparisons


def _terms(options: RunOptions, *, dtype: str) -> str:
    """What was compared."""
    return (
        f"One run each, one after the other, in {dtype} at temperature "
        f"{options.sampling.temperature:g}, up to {options.max_new_tokens} tokens, draft length "
        f"{options.draft_length}. Speeds leave out the first token."
    )


def _verdict(comparisons: list[Comparison], *, temperature: float, dtype: str) -> str:
    """What the outputs' column means."""
    if temperature > GREEDY_UP_TO:
        return (
            "Sampled outputs have the same distribution with and without a draft, not the same "
            "tokens: they are not expected to be equal."
        )
    differing = [one for one in comparisons if one.first_difference is not None]
    count = len(comparisons) - len(differing)
    equal = f"{count} of {len(comparisons)} greedy outputs are equal with and without the draft"
    if not differing:
        return f"{equal}."
    if dtype in HALF_PRECISION:
        return (
            f"{equal}, the others up to the given token. In {dtype} a forward over several "
            "tokens rounds otherwise than one over a single token, so two tokens that are nearly "
            "tied may change places; --dtype float32 keeps them apart."
        )
    return f"{equal}. In {dtype} only two tokens that are nearly tied may change places."

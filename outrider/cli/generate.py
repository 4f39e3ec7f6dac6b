"""`outrider generate`: one prompt, streamed to standard output."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Annotated

import typer

from outrider.cli import options, speculation_options
from outrider.cli.chat_fallback import generate_chat
from outrider.cli.output import JsonObject, Output, StreamedText
from outrider.cli.prompt import PromptError, read_prompt
from outrider.cli.request import SamplingOptions, chat_prompt, speculation_params
from outrider.cli.retries import RetryNotices
from outrider.cli.speculation_options import draft_length_choice, fixed_length
from outrider.cli.tables import generation_table
from outrider.cli.terminal import ExitCode, fail, leave_broken_pipe, notice, notices
from outrider.cli.verification import Verification, VerificationChoice
from outrider.client import DEFAULT_ADDRESS, ClientError, Patience, ResumingClient
from outrider.client.patience import DEFAULT_S
from outrider.rpc.tls import TlsFiles
from outrider.settings import SpeculationChoice
from outrider.v1 import generation_pb2

MODES = {
    None: generation_pb2.SPECULATION_MODE_UNSPECIFIED,
    SpeculationChoice.AUTO: generation_pb2.SPECULATION_MODE_AUTO,
    SpeculationChoice.ON: generation_pb2.SPECULATION_MODE_ON,
    SpeculationChoice.OFF: generation_pb2.SPECULATION_MODE_OFF,
}


def generate(
    prompt: Annotated[str, typer.Argument(help="What to answer; - reads standard input.")],
    address: options.Addresses = DEFAULT_ADDRESS,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the text as it stands, without a chat.")
    ] = False,
    system: Annotated[str | None, typer.Option(help="Instructions for the chat.")] = None,
    temperature: options.Temperature = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    seed: options.Seed = None,
    verification: Verification = VerificationChoice.AUTO,
    max_new_tokens: options.MaxNewTokens = None,
    speculation: speculation_options.Speculation = None,
    draft_length: speculation_options.DraftLength = None,
    draft_ahead: speculation_options.DraftAhead = None,
    draft_branches: speculation_options.DraftBranches = None,
    copies: speculation_options.Copies = None,
    no_speculation: Annotated[
        bool, typer.Option("--no-speculation", help="The same as --speculation off.")
    ] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="Print what speculation did, to standard error.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end instead of text.")
    ] = False,
    patience: options.Patience = DEFAULT_S,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    api_key: options.ApiKey = None,
) -> None:
    """Answer a prompt, streamed.

    A chat where the model has a template for one, else a continuation. Only the text goes to
    standard output. When a coordinator is lost, the next of them goes on where it stopped.
    """
    if raw and system is not None:
        fail("--system needs a chat: it does not go with --raw", ExitCode.USAGE)
    if no_speculation and speculation not in (None, SpeculationChoice.OFF):
        fail(f"--speculation {speculation} contradicts --no-speculation", ExitCode.USAGE)
    off = no_speculation or speculation is SpeculationChoice.OFF
    length = draft_length_choice(draft_length)
    if off and length:
        switch = "--no-speculation" if no_speculation else "--speculation off"
        fail(f"--draft-length does not go with {switch}", ExitCode.USAGE)
    try:
        text = read_prompt(prompt)
    except PromptError as error:
        fail(str(error), ExitCode.USAGE)
    sampling = SamplingOptions(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
        verification=verification,
    )
    request = generation_pb2.GenerateRequest(
        max_new_tokens=max_new_tokens,
        sampling=sampling.to_message(),
        speculation=speculation_params(
            mode=MODES[SpeculationChoice.OFF if off else speculation],
            draft_length=fixed_length(length),
            draft_ahead=draft_ahead,
            branches=draft_branches,
            copies=fixed_length(draft_length_choice(copies)),
        ),
    )
    if raw:
        request.text = text
    else:
        request.chat.CopyFrom(chat_prompt(text, system=system))
    retries = RetryNotices()
    output: Output = JsonObject(sys.stdout) if as_json else StreamedText(sys.stdout)
    try:
        with ResumingClient(
            options.address_list(address),
            tls=TlsFiles(tls_cert, tls_key, tls_ca),
            api_key=api_key,
            patience=Patience(total_s=patience),
            on_retry=retries,
        ) as client:
            summary = _run(client, request, output)
    except KeyboardInterrupt:
        output.break_off()
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        leave_broken_pipe()
    except ClientError as error:
        output.break_off()
        fail(str(error))
    if stats:
        if retries.resumed:
            notice("The figures are of the last part alone, after the break.")
        notices().print(generation_table(summary))


def _run(
    client: ResumingClient, request: generation_pb2.GenerateRequest, output: Output
) -> generation_pb2.GenerationSummary:
    """Hands the events on as they come. An interruption on the way cancels the call."""
    with closing(generate_chat(client, request, _tell_fallback)) as events:
        for event in events:
            if isinstance(event, generation_pb2.GenerationSummary):
                output.summary(event)
                return event
            output.chunk(event)
    raise AssertionError("a generation ends with its summary or an error")


def _tell_fallback() -> None:
    notice("The model has no chat template: the prompt is continued as plain text.")

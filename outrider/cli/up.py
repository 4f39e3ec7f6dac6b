"""`outrider up`: target, draft and coordinator on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from outrider.cli import options, speculation_options
from outrider.cli.deployment import Deployment, ServiceEndedError
from outrider.cli.flags import flag_name, warn_of_unknown_settings, was_given
from outrider.cli.pair import (
    LARGEST_PORT,
    PairOptions,
    RunningPair,
    busy_ports,
    start_pair,
    usable_cores,
)
from outrider.cli.progress import EchoingProgress, StartProgress
from outrider.cli.signals import stop_signals
from outrider.cli.terminal import ExitCode, fail, notice
from outrider.settings import SettingsError

DEFAULT_PORT = 7400


OF_THE_DRAFT = ("draft_model", "drafter")


def up(
    context: typer.Context,
    target_model: options.TargetModel = "embedded",
    draft_model: options.DraftModel = "embedded",
    drafter: options.DraftWay = None,
    no_draft: Annotated[
        bool, typer.Option("--no-draft", help="Run without a draft: the target decodes alone.")
    ] = False,
    dtype: options.Dtype = None,
    device: options.Device = None,
    threads: options.Threads = None,
    speculation: speculation_options.Speculation = None,
    draft_length: speculation_options.DraftLength = None,
    draft_ahead: speculation_options.DraftAhead = None,
    draft_branches: speculation_options.DraftBranches = None,
    copies: speculation_options.Copies = None,
    port: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=LARGEST_PORT,
            help="The coordinator's port; draft and target take the 11th and 21st after it. "
            "0: free ports.",
        ),
    ] = DEFAULT_PORT,
    pin: Annotated[
        bool,
        typer.Option(
            "--pin", help="Give the draft the last core and the target all others, for itself."
        ),
    ] = False,
    log_folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the logs go. Unset: a new temporary folder."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print the services' logs too.")
    ] = False,
) -> None:
    """Run all three services here until Ctrl-C.

    Endpoints go to standard output once everything serves.
    """
    if no_draft:
        _warn_of_options_of_the_draft(context)
    cores = usable_cores() if pin else []
    if len(cores) == 1:
        fail("--pin needs two cores, this machine lets the command use one", ExitCode.USAGE)
    if busy := busy_ports(port):
        ports = ", ".join(map(str, busy))
        fail(f"in use already: port {ports}. Choose others with --port, or --port 0")
    pair_options = PairOptions(
        target_model=target_model,
        draft_model=None if no_draft else draft_model,
        drafter=drafter,
        dtype=dtype,
        device=device,
        threads=threads,
        speculation=speculation,
        draft_length=speculation_options.draft_length_choice(draft_length),
        draft_ahead=draft_ahead,
        draft_branches=draft_branches,
        copies=speculation_options.draft_length_choice(copies),
        port=port,
        pinned_cores=cores,
    )
    warn_of_unknown_settings()
    progress = EchoingProgress() if verbose else StartProgress()
    try:
        run_folder = log_folder or Path(tempfile.mkdtemp(prefix="outrider-"))
        run_folder.mkdir(parents=True, exist_ok=True)
        with stop_signals(), Deployment(run_folder, progress) as deployment:
            with progress:
                pair = start_pair(deployment, pair_options)
            _print_endpoints(pair, run_folder)
            deployment.watch(_tell_loss)
    except KeyboardInterrupt:
        notice("Stopped.")
    except SettingsError as error:
        fail(str(error), ExitCode.USAGE)
    except (ServiceEndedError, OSError) as error:
        fail(str(error))


def _warn_of_options_of_the_draft(context: typer.Context) -> None:
    for name in OF_THE_DRAFT:
        if was_given(context, name):
            notice(f"warning: {flag_name(name)} has no effect beside --no-draft")


def _print_endpoints(pair: RunningPair, run_folder: Path) -> None:
    typer.echo(f"coordinator {pair.coordinator}")
    typer.echo(f"target {pair.target}")
    if pair.draft is not None:
        typer.echo(f"draft {pair.draft}")
    notice(f'Try: outrider generate "Why is the sky blue?" --address {pair.coordinator}')
    notice(f"Logs: {run_folder}. Ctrl-C stops everything.")


def _tell_loss(error: ServiceEndedError) -> None:
    notice(f"The target goes on alone: {error}")

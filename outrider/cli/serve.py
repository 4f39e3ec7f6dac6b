"""`outrider serve target|draft|coordinator`: one service in this process.

A service is imported only when it is to run: the coordinator does without what the workers need,
and the help needs neither.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, NoReturn

import typer

from outrider.cli import lifeline
from outrider.cli.flags import warn_of_unknown_settings, with_flags
from outrider.cli.terminal import ExitCode, fail
from outrider.settings import CoordinatorSettings, DraftSettings, TargetSettings

WORKER_PACKAGES = ("torch", "transformers")

app = typer.Typer(no_args_is_help=True, help="Run one service in this process.")


@app.callback()
def _serve(
    end_with_input: Annotated[
        bool,
        typer.Option(
            "--end-with-input",
            help="Stop when standard input closes, as it does when the parent process is gone.",
        ),
    ] = False,
) -> None:
    """Run one service in this process until SIGTERM or Ctrl-C.

    Each flag has an environment variable of the same name; the flag wins.
    """
    if end_with_input:
        lifeline.end_with(sys.stdin.fileno())
    warn_of_unknown_settings()


def target(settings: TargetSettings) -> None:
    """Run a target, which decides the output."""
    _check_worker_packages()
    from target_service.main import serve

    _run_worker(lambda: serve(settings))


def draft(settings: DraftSettings) -> None:
    """Run a draft, which proposes tokens."""
    _check_worker_packages()
    from draft_service.main import serve

    _run_worker(lambda: serve(settings))


def coordinator(settings: CoordinatorSettings) -> None:
    """Run a coordinator, which takes requests."""
    from coordinator.main import serve

    _run(lambda: serve(settings))


def _fail_usage(message: str) -> NoReturn:
    fail(message, ExitCode.USAGE)


app.command("target")(with_flags(TargetSettings, target, on_fault=_fail_usage))
app.command("draft")(with_flags(DraftSettings, draft, on_fault=_fail_usage))
app.command("coordinator")(with_flags(CoordinatorSettings, coordinator, on_fault=_fail_usage))


def _check_worker_packages() -> None:
    missing = [name for name in WORKER_PACKAGES if find_spec(name) is None]
    if missing:
        fail(f"a worker needs {' and '.join(missing)}: pip install 'outrider[worker]'")


def _run_worker(serve: Callable[[], int]) -> NoReturn:
    from outrider.engine.load_error import ModelLoadError

    try:
        _run(serve)
    except ModelLoadError as error:
        fail(str(error))


def _run(serve: Callable[[], int]) -> NoReturn:
    from outrider.rpc.server import ListenError
    from outrider.rpc.watched_files import FilesError

    try:
        code = serve()
    except (ListenError, FilesError) as error:
        fail(str(error))
    raise typer.Exit(code)

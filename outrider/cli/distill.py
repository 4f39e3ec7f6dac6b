"""`outrider distill`: a draft for any target."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import typer

from outrider.bench.prompts import PromptFileError
from outrider.cli import distill_options, options
from outrider.cli.distill_progress import DistillProgress
from outrider.cli.signals import stop_signals
from outrider.cli.terminal import ExitCode, answers, fail, leave_broken_pipe, notice
from outrider.distill.errors import DistillError
from outrider.distill.plan import AUTO, LOSS_NAMES, DistillPlan
from outrider.settings import SettingsError, TargetSettings, load_settings

if TYPE_CHECKING:
    from outrider.distill.trying import VerifiedBothWays

WORK = "-work"


def distill(
    out: distill_options.Out,
    target: distill_options.Target = "embedded",
    work: distill_options.Work = None,
    prompts: distill_options.Prompts = None,
    held_out: distill_options.HeldOut = None,
    held_out_texts: distill_options.HeldOutTexts = 48,
    text: distill_options.Text = None,
    own_turns: distill_options.OwnTurns = 0.35,
    written_tokens: distill_options.WrittenTokens = 1_000_000,
    longest: distill_options.Longest = 192,
    layers: distill_options.Layers = "5",
    begin_from: distill_options.BeginFrom = None,
    vocabulary: distill_options.Vocabulary = 8192,
    loss: distill_options.Loss = AUTO,
    tokens: distill_options.Tokens = 5_000_000,
    trial_tokens: distill_options.TrialTokens = 150_000,
    batch_tokens: distill_options.BatchTokens = 4096,
    learning_rate: distill_options.LearningRate = 1e-3,
    judge_every: distill_options.JudgeEvery = 250_000,
    verify_every: distill_options.VerifyEvery = 1_000_000,
    verify_prompts: distill_options.VerifyPrompts = 8,
    verify_tokens: distill_options.VerifyTokens = 64,
    side_by_side: distill_options.SideBySide = 128,
    seed: distill_options.Seed = 0,
    dtype: options.Dtype = None,
    device: options.Device = None,
    threads: options.Threads = None,
) -> None:
    """Make a draft for a target.

    The target writes texts; a few of its own layers learn to say what it says. Judged on held-out
    text and in real generations. Whatever is done is kept: the same command goes on from there
    after Ctrl-C, a crash, or with more --tokens.
    """
    if loss not in (AUTO, *LOSS_NAMES):
        raise typer.BadParameter(
            f"must be {', '.join(LOSS_NAMES)} or {AUTO}, got {loss!r}", param_hint="--loss"
        )
    plan = DistillPlan(
        out=out,
        work=work or out.with_name(out.name + WORK),
        target=target,
        prompts=prompts,
        held_out=held_out,
        held_out_texts=held_out_texts,
        texts=tuple(text or ()),
        own_turns=own_turns,
        written_tokens=written_tokens,
        longest=longest,
        layers=distill_options.layers_of(layers),
        begin_from=begin_from,
        vocabulary=vocabulary,
        loss=loss,
        tokens=tokens,
        trial_tokens=trial_tokens,
        batch_tokens=batch_tokens,
        learning_rate=learning_rate,
        judge_every=judge_every,
        verify_every=verify_every,
        verify_prompts=verify_prompts,
        verify_tokens=verify_tokens,
        side_by_side=side_by_side,
        seed=seed,
        dtype=dtype or AUTO,
        device=device or AUTO,
        threads=threads or 0,
    )
    try:
        real = _distil(plan)
    except KeyboardInterrupt:
        notice(f"Kept in {plan.work}: the same command goes on from there.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        leave_broken_pipe()
    except (SettingsError, PromptFileError) as error:
        fail(str(error), ExitCode.USAGE)
    except DistillError as error:
        fail(str(error))
    _report(plan, real)


def _distil(plan: DistillPlan) -> VerifiedBothWays:
    try:
        # Only workers need torch: a machine without it has all other commands.
        from torch import OutOfMemoryError

        from outrider.distill.distillation import Distillation
        from outrider.engine.load_error import ModelLoadError
        from outrider.logs import configure_logs
    except ImportError as error:
        fail(f"distilling needs the extra `worker`: pip install 'outrider[worker]' ({error.name})")
    # The services that try the draft are heard only when something is wrong.
    configure_logs(level="warning", log_format="console")
    cache_dir = load_settings(TargetSettings, {}).cache_dir
    progress = DistillProgress()
    with stop_signals(), progress.shown:
        try:
            return Distillation(plan, cache_dir=cache_dir, events=progress).run()
        except ModelLoadError as error:
            raise DistillError(str(error)) from error
        except OutOfMemoryError as error:
            raise DistillError(
                f"no memory is left on the device; what is done is kept. Less is taken with fewer "
                f"--side-by-side or --batch-tokens: {error}"
            ) from error


def _report(plan: DistillPlan, real: VerifiedBothWays) -> None:
    console = answers()
    console.print(
        f"{plan.out}: {real.greedy.tokens_per_round:.2f} output tokens a round greedily, "
        f"{real.drawn.tokens_per_round:.2f} at temperature 1 (4 draft tokens in each). "
        f"README.md there says how it was made.",
        soft_wrap=True,
    )
    folder, target = shlex.quote(str(plan.out)), shlex.quote(plan.target)
    console.print(
        f"Compare: outrider bench --target-model {target} --draft-model {folder}", soft_wrap=True
    )

"""The engine's rows on a GPU, with a larger target of random weights.

`python -m benchmarks.gpu [--size 1b|3b|8b]` prints the same tables as `python -m benchmarks engine`
and writes rows whose names begin with `gpu_`. `limit_bytes_floor` sets a decode step against the
weights and the KV state it reads ÷ the memory bandwidth measured.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence

import torch

from benchmarks import (
    batched_verify,
    limits,
    prefix_reuse,
    round_at_context,
    sampling,
    settings_compared,
    target_only,
    ttft,
)
from benchmarks.random_llama import SHAPES, random_llama_folder
from benchmarks.results import Row, publish
from benchmarks.subject import Subject
from outrider.logs import configure_logs
from outrider.settings import LogFormat, LogLevel

DEVICE = "cuda:0"
DTYPE = "bfloat16"
NETWORKS = (limits.EAGER, limits.COMPILED)
DEEP = ((1, 4000), (8, 4000), (32, 2000))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures; the exit code is 2 where there is no CUDA."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--size", choices=tuple(SHAPES), default="3b", help="of the target")
    size = parser.parse_args(arguments).size
    if not torch.cuda.is_available():
        print("benchmarks.gpu: torch finds no CUDA device on this machine", file=sys.stderr)
        return 2
    configure_logs(level=LogLevel.WARNING, log_format=LogFormat.CONSOLE)
    warnings.simplefilter("ignore")
    subject = Subject(
        model=str(random_llama_folder(size, device=DEVICE)),
        words=f"random Llama of {size}",
        dtype=DTYPE,
        device=DEVICE,
        prefix="gpu_",
    )
    for title, measure in _measures(subject):
        print(f"{title} …", file=sys.stderr, flush=True)
        rows = list(measure())
        if rows:
            publish(f"{title} on a GPU", rows)
    return 0


def _measures(subject: Subject) -> Sequence[tuple[str, Callable[[], Iterable[Row]]]]:
    dtypes = (subject.dtype,)
    return (
        (
            "Limits",
            lambda: limits.measure(dtypes=dtypes, deep=DEEP, networks=NETWORKS, subject=subject),
        ),
        ("Verifications", lambda: batched_verify.measure(dtypes=dtypes, subject=subject)),
        ("Rounds at a context", lambda: round_at_context.measure(subject=subject)),
        ("Sampling of eight", lambda: sampling.measure_batch(subject=subject)),
        ("A short prompt beside a long one", lambda: ttft.measure(subject=subject)),
        ("Prefix reuse", lambda: prefix_reuse.measure(subject=subject)),
        ("The target alone", lambda: target_only.measure(subject=subject)),
        ("Gathering", lambda: target_only.measure_rounds(subject=subject)),
        ("Compilation", lambda: settings_compared.measure_compile(subject=subject)),
    )


if __name__ == "__main__":
    sys.exit(main())

"""`python -m benchmarks [NAME …]` measures, prints tables, writes benchmarks/results.

`python -m benchmarks table NAME` prints kept results as markdown.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

from benchmarks.catalogue import Benchmark, find, known_names
from benchmarks.results import publish
from benchmarks.tables import TABLES, markdown
from outrider.logs import configure_logs
from outrider.settings import LogFormat, LogLevel

TABLE = "table"
PROMPTS = "prompts"


def main() -> int:
    """Runs the chosen benchmarks, one after the other."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"{__doc__} Run times: {_times()}.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(known_names())}; all but parts"
    )
    parser.add_argument(
        "--prompts", type=int, help="prompts for each figure; greedy takes up to 200"
    )
    arguments = parser.parse_args()
    if arguments.names[:1] == [TABLE]:
        return _print_tables(arguments.names[1:], parser)
    try:
        chosen = find(arguments.names)
    except ValueError as error:
        parser.error(str(error))
    configure_logs(level=LogLevel.WARNING, log_format=LogFormat.CONSOLE)
    warnings.simplefilter("ignore")
    for benchmark in chosen:
        _run(benchmark, prompts=arguments.prompts)
    return 0


def _run(benchmark: Benchmark, *, prompts: int | None) -> None:
    print(f"{benchmark.title}, about {benchmark.seconds} s …", file=sys.stderr, flush=True)
    options = dict(benchmark.options)
    if prompts is not None and PROMPTS in (benchmark.measure.__kwdefaults__ or {}):
        options[PROMPTS] = prompts
    since = time.monotonic()
    rows = list(benchmark.measure(**options))
    if rows:
        publish(benchmark.title, rows)
    print(f"  took {time.monotonic() - since:.0f} s", file=sys.stderr, flush=True)


def _print_tables(names: list[str], parser: argparse.ArgumentParser) -> int:
    unknown = set(names) - set(TABLES)
    if unknown or not names:
        parser.error(f"tables: {', '.join(TABLES)}")
    for name in names:
        print(markdown(name))
    return 0


def _times() -> str:
    return ", ".join(f"{one.name} {one.seconds} s" for one in find([]))


if __name__ == "__main__":
    sys.exit(main())

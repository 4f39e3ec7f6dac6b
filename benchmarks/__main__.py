"""`python -m benchmarks [NAME …]`: measures, prints tables, writes benchmarks/results."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping

from benchmarks import embedded, greedy, hop, sampling, wire
from benchmarks.results import Row, publish
from outrider.logs import configure_logs
from outrider.settings import LogFormat, LogLevel

TITLES = {
    "wire": "Bytes on the wire",
    "hop": "Hop overhead",
    "sampling": "Sampling",
    "greedy": "Greedy output, with and without speculation",
    "embedded": "Speed of the embedded pair",
}


def main() -> int:
    """Runs the chosen benchmarks, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TITLES)}; all")
    parser.add_argument(
        "--prompts", type=int, help="prompts for each figure; greedy takes up to 200"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(TITLES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    configure_logs(level=LogLevel.WARNING, log_format=LogFormat.CONSOLE)
    warnings.simplefilter("ignore")
    measures: Mapping[str, Callable[..., Iterable[Row]]] = {
        "wire": wire.measure,
        "hop": hop.measure,
        "sampling": sampling.measure,
        "greedy": greedy.measure,
        "embedded": embedded.measure,
    }
    options = {} if arguments.prompts is None else {"prompts": arguments.prompts}
    for name in arguments.names or TITLES:
        print(f"{TITLES[name]} …", file=sys.stderr, flush=True)
        publish(TITLES[name], list(measures[name](**options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What workers hold, on terminals of any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from outrider.cli.figures import size
from outrider.cli.load_tables import load_tables
from outrider.v1 import generation_pb2, model_pb2


def shown(state: generation_pb2.GenerationServiceGetStatusResponse, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    for table in load_tables(state, width=width):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def worker(weights: int) -> generation_pb2.WorkerStatus:
    return generation_pb2.WorkerStatus(
        model=model_pb2.GetModelResponse(role=model_pb2.WORKER_ROLE_TARGET),
        status=model_pb2.ModelServiceGetStatusResponse(
            weights_bytes=weights,
            kv_pool_bytes=1 << 40,
            kv_bytes=1023 << 30,
            kv_blocks=100,
            handles_in_use=1000,
            handles_leased=1000,
        ),
    )


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_every_worker_is_shown_in_full(width: int) -> None:
    state = generation_pb2.GenerationServiceGetStatusResponse(
        targets=[worker(1 << 20), worker(2 << 20), worker(3 << 20)], drafts=[worker(4 << 20)]
    )
    lines = shown(state, width)
    assert max(len(line.rstrip()) for line in lines) <= width
    text = "\n".join(lines)
    for weights in ("1.0 MiB", "2.0 MiB", "3.0 MiB", "4.0 MiB"):
        assert weights in text
    assert text.count("1023.0 GiB, 100 %") == 4
    assert "…" not in text


def test_a_worker_that_has_told_nothing_is_left_out() -> None:
    state = generation_pb2.GenerationServiceGetStatusResponse(
        targets=[generation_pb2.WorkerStatus(address="a:1", reachable=False)]
    )
    assert shown(state, 80) == []


def test_a_draft_tells_how_much_it_copied() -> None:
    load = model_pb2.ModelServiceGetStatusResponse(draft_tokens=378, copied_tokens=123)
    state = generation_pb2.GenerationServiceGetStatusResponse(
        targets=[worker(1)], drafts=[generation_pb2.WorkerStatus(status=load)]
    )
    words = [line.split() for line in shown(state, 80)]
    assert ["drafted", "–", "378"] in words
    assert ["copied", "–", "123"] in words


def test_a_worker_of_before_the_pool_has_dashes() -> None:
    told = generation_pb2.WorkerStatus(status=model_pb2.ModelServiceGetStatusResponse())
    state = generation_pb2.GenerationServiceGetStatusResponse(drafts=[told])
    text = " ".join(" ".join(shown(state, 80)).split())
    assert "KV in use – KV kept – handles 0 in use, 0 kept prefix hits –" in text


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 << 29, "1.5 GiB"),
        (1 << 52, "4096.0 TiB"),
    ],
)
def test_sizes(count: int, words: str) -> None:
    assert size(count) == words

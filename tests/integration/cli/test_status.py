"""`outrider status` as a process against a real server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from outrider.v1 import generation_pb2

if TYPE_CHECKING:
    from conftest import Outrider, ScriptedServer


def test_the_table_shows_both_pools(
    outrider: Outrider, server: ScriptedServer, worker_status: generation_pb2.WorkerStatus
) -> None:
    server.script.status = generation_pb2.GenerationServiceGetStatusResponse(
        targets=[worker_status],
        drafts=[
            generation_pb2.WorkerStatus(
                address="127.0.0.1:7411", reachable=True, reason="token 7 differs"
            )
        ],
        running=2,
        finished=9,
        build_version="0.1.0",
        uptime_s=61,
        speculation_mode=generation_pb2.SPECULATION_MODE_AUTO,
        policy=generation_pb2.PolicyStatus(
            draft_length=5,
            reason="ACCEPTANCE: 9.1 tokens/s expected, 7.4 alone",
            survival=[0.62, 0.375],
            draft_token_ms=4.25,
            plain_step_ms=20.5,
            switches=3,
            copied_survival=[0.9, 0.8],
        ),
    )
    done = outrider("status", "--address", server.address)
    assert (done.returncode, done.stderr) == (0, "")
    words = " ".join(done.stdout.split())
    for fact in ("[embedded]", "bfloat16", "01234567", "differs", "2 running"):
        assert fact in words
    for fact in (
        "weights 270.0 MiB",
        "KV pool 4.0 GiB",
        "KV in use 1.0 GiB, 25 %",
        "KV kept 2.0 GiB, 50 %",
        "handles 3 in use, 4 kept",
        "prefix hits 83.3 %",
        "preempted 2",
        "queue 7",
        "batch 6.4",
        "price of a row 0.31",
        "accepted 25.0 %",
    ):
        assert fact in words
    assert "speculation auto, draft length auto" in words
    for fact in (
        "draft length 5 (ACCEPTANCE)",
        "accepted up to place 62.0 % 37.5 %",
        "draft token 4.25 ms",
        "copies accepted up to place 90.0 % 80.0 %",
        "decoding alone 20.50 ms per token",
        "times turned off or on 3",
    ):
        assert fact in words


def test_of_drafts_that_only_copy_nothing_else_is_told(
    outrider: Outrider, server: ScriptedServer
) -> None:
    server.script.status = generation_pb2.GenerationServiceGetStatusResponse(
        policy=generation_pb2.PolicyStatus(reason="COPIES", copied_survival=[0.75])
    )
    words = " ".join(outrider("status", "--address", server.address).stdout.split())
    assert "draft length 0 (COPIES)" in words
    assert "copies accepted up to place 75.0 %" in words
    assert "draft token" not in words


def test_a_fixed_draft_length_is_told(outrider: Outrider, server: ScriptedServer) -> None:
    server.script.status = generation_pb2.GenerationServiceGetStatusResponse(draft_length=4)
    words = " ".join(outrider("status", "--address", server.address).stdout.split())
    assert "draft length 4" in words


def test_json_keeps_numbers_as_numbers(
    outrider: Outrider, server: ScriptedServer, worker_status: generation_pb2.WorkerStatus
) -> None:
    server.script.status = generation_pb2.GenerationServiceGetStatusResponse(
        targets=[worker_status], finished=2**60
    )
    state = json.loads(outrider("status", "--json", "--address", server.address).stdout)
    assert state["finished"] == 2**60
    assert state["targets"][0]["model"]["role"] == "target"
    assert state["targets"][0]["model"]["bos_token_id"] is None
    assert state["drafts"] == []


def test_an_unreachable_server_is_a_failure(outrider: Outrider) -> None:
    done = outrider("status", "--address", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "outrider up" in done.stderr

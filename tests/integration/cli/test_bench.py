"""`outrider bench` as a process against a real server whose answers are written down."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from outrider.v1 import common_pb2, generation_pb2

if TYPE_CHECKING:
    from conftest import Outrider, ScriptedServer

SHORT = ("--requests", "4", "--max-new-tokens", "5", "--concurrency", "1,2")
FIXED_K = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_ON, draft_length=3)


@pytest.fixture
def pair(server: ScriptedServer, worker_status: generation_pb2.WorkerStatus) -> ScriptedServer:
    """A server that has a target and a draft."""
    server.script.status.targets.append(worker_status)
    server.script.status.drafts.append(worker_status)
    server.script.pause_s = 0.002
    return server


def figures(path: Path) -> dict[str, Any]:
    """What the JSON file says; the report must lie beside it."""
    assert path.with_suffix(".html").read_text().startswith("<!doctype html>")
    return dict(json.loads(path.read_text()))


def test_every_setting_gets_the_same_requests(
    outrider: Outrider, pair: ScriptedServer, tmp_path: Path
) -> None:
    out = tmp_path / "result.json"
    flags = ("--draft-length", "auto,3", "--seed", "7", "--verification", "coupled")
    done = outrider("bench", "--server", pair.address, "--out", str(out), *SHORT, *flags)
    assert done.returncode == 0, done.stderr
    facts = figures(out)
    assert facts["complete"]
    settings = ["target only", "auto", "k = 3"]
    assert [one["setting"] for one in facts["cells"]] == settings * 2
    assert [one["requests"] for one in facts["cells"]] == [4] * 6
    asked = {
        name: [
            (one["concurrency"], one["turn"], one["request"])
            for one in facts["requests"]
            if one["setting"] == name
        ]
        for name in settings
    }
    assert sorted(asked["auto"]) == sorted(asked["k = 3"]) == sorted(asked["target only"])
    assert [count for _, count in facts["requests"][0]["arrivals"]] == [2, 3]
    modes = {request.speculation.mode for request in pair.script.requests[1:]}
    assert generation_pb2.SPECULATION_MODE_OFF in modes
    assert any(request.speculation == FIXED_K for request in pair.script.requests)
    for request in pair.script.requests[1:]:
        assert request.sampling.verification == common_pb2.VERIFICATION_COUPLED
        assert request.sampling.seed >= 7
    seeds = Counter(request.sampling.seed for request in pair.script.requests[1:])
    assert len(seeds) > 1
    assert "target only" in done.stdout
    assert "Speculate" in done.stdout or "Too few turns" in done.stdout
    assert f"Report: {out.with_suffix('.html')}" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_the_load_is_what_was_asked_for_from_beginning_to_end(
    outrider: Outrider, pair: ScriptedServer, tmp_path: Path
) -> None:
    """Whoever is done before the others goes on, and all have left in the end."""
    pair.script.pause_s = 0.01
    out = tmp_path / "result.json"
    done = outrider(
        "bench", "--server", pair.address, "--out", str(out), "--requests", "10",
        "--concurrency", "5",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + 10.0
    while pair.script.running and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pair.script.running == 0
    assert pair.script.most_running == 5
    facts = figures(out)
    assert [(one["requests"], one["turns"]) for one in facts["cells"]] == [(10, 2), (10, 2)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_what_was_measured(
    pair: ScriptedServer, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "result.json"
    command = [sys.executable, "-m", "outrider", "bench", "--server", pair.address]
    process = subprocess.Popen(
        [*command, "--seconds", "600", "--concurrency", "1", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30.0
    while len(pair.script.requests) < 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    process.send_signal(number)
    output, notices = process.communicate(timeout=30)
    assert process.returncode == 130, notices
    assert "Every complete turn is kept" in notices
    assert "target only" in output
    facts = figures(out)
    assert (facts["complete"], facts["stopped"]) == (False, "interrupted")
    by_setting = Counter(one["setting"] for one in facts["requests"])
    assert by_setting["auto"] == by_setting["target only"] > 0


def test_a_failure_on_the_way_keeps_what_was_measured(
    outrider: Outrider, pair: ScriptedServer, tmp_path: Path
) -> None:
    script = pair.script
    script.error = script.error_status(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "too many generations", "GENERATIONS"
    )
    script.spared = 30
    out = tmp_path / "result.json"
    done = outrider(
        "bench", "--server", pair.address, "--concurrency", "1", "--requests", "100",
        "--out", str(out),
    )  # fmt: skip
    assert done.returncode == 1
    assert "too many generations" in done.stderr
    assert "too many generations" in figures(out)["stopped"]


def test_a_failure_before_the_first_turn_leaves_no_files(
    outrider: Outrider, pair: ScriptedServer, tmp_path: Path
) -> None:
    script = pair.script
    script.error = script.error_status(grpc.StatusCode.INTERNAL, "it broke", "INTERNAL")
    script.spared = 3
    out = tmp_path / "result.json"
    done = outrider("bench", "--server", pair.address, "--out", str(out), *SHORT)
    assert done.returncode == 1
    assert "outrider: it broke" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_chats_continues_texts(
    outrider: Outrider, pair: ScriptedServer, tmp_path: Path
) -> None:
    pair.script.chat_error = pair.script.error_status(
        grpc.StatusCode.INVALID_ARGUMENT, "no template", "FIELD", field="chat", allowed="unset"
    )
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text('{"prompt": "Once"}\n')
    out = tmp_path / "result.json"
    flags = ("--prompts", str(prompts), "--out", str(out))
    done = outrider("bench", "--server", pair.address, *SHORT, *flags)
    assert done.returncode == 0, done.stderr
    assert "continued as plain text" in done.stderr
    assert {request.text for request in pair.script.requests[2:]} == {"Once"}
    assert f"1 of {prompts}" in out.read_text()


def test_a_fixed_draft_length_of_the_server_is_told(
    outrider: Outrider, pair: ScriptedServer, tmp_path: Path
) -> None:
    pair.script.status.draft_length = 2
    out = str(tmp_path / "result.json")
    done = outrider("bench", "--server", pair.address, "--out", out, *SHORT)
    assert done.returncode == 0, done.stderr
    assert "draft length of its own, 2" in done.stderr


def test_without_a_draft_there_is_nothing_to_compare(
    outrider: Outrider, pair: ScriptedServer, tmp_path: Path
) -> None:
    del pair.script.status.drafts[:]
    done = outrider("bench", "--server", pair.address, "--out", str(tmp_path / "result.json"))
    assert done.returncode == 1
    assert "no usable draft, so there is nothing to compare" in done.stderr
    assert pair.script.requests == []


def test_nobody_there(outrider: Outrider, tmp_path: Path) -> None:
    out = str(tmp_path / "result.json")
    done = outrider("bench", "--server", "127.0.0.1:9", "--out", out)
    assert done.returncode == 1
    assert "no server answers at 127.0.0.1:9" in done.stderr
    assert list(tmp_path.iterdir()) == []

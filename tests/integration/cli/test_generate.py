"""`outrider generate` as a process against a real server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import grpc
import pytest

from outrider.v1 import common_pb2, generation_pb2

if TYPE_CHECKING:
    from conftest import Outrider, ScriptedServer

TEXT = "Grüße, 世界!"


def test_only_the_text_goes_to_standard_output(outrider: Outrider, server: ScriptedServer) -> None:
    done = outrider("generate", "Hello", "--address", server.address)
    assert done.returncode == 0
    assert done.stdout == TEXT
    assert done.stderr == ""


def test_statistics_go_to_standard_error(outrider: Outrider, server: ScriptedServer) -> None:
    done = outrider("generate", "Hello", "--address", server.address, "--stats")
    assert done.stdout == TEXT
    for figure in ("25.0 %", "50.0 %  50.0 %  0.0 %  0.0 %", "1.67", "20.0", "80 ms", "0.25 ms"):
        assert figure in done.stderr


def test_options_become_fields_and_unset_ones_stay_unset(
    outrider: Outrider, server: ScriptedServer
) -> None:
    arguments = (
        "generate Hello --temperature 0 --top-k 0 --seed 18446744073709551615 "
        "--max-new-tokens 0 --draft-length 3 --system Rhyme"
    )
    assert outrider(*arguments.split(), "--address", server.address).returncode == 0
    assert outrider("generate", "Hello", "--address", server.address).returncode == 0
    full, bare = server.script.requests
    for field in ("temperature", "top_k", "seed"):
        assert full.sampling.HasField(field)
        assert not bare.sampling.HasField(field)
    assert full.sampling.seed == 2**64 - 1
    assert full.HasField("max_new_tokens")
    assert not bare.HasField("max_new_tokens")
    assert full.speculation.draft_length == 3
    assert not bare.speculation.HasField("draft_length")
    assert [(message.role, message.content) for message in full.chat.messages] == [
        (generation_pb2.CHAT_ROLE_SYSTEM, "Rhyme"),
        (generation_pb2.CHAT_ROLE_USER, "Hello"),
    ]


@pytest.mark.parametrize(
    ("flags", "speculation"),
    [
        ("", generation_pb2.SpeculationParams()),
        ("--draft-length auto", generation_pb2.SpeculationParams()),
        (
            "--speculation on --draft-length 0 --draft-branches 0 --no-draft-ahead",
            generation_pb2.SpeculationParams(
                mode=generation_pb2.SPECULATION_MODE_ON,
                draft_length=0,
                branches=0,
                draft_ahead=False,
            ),
        ),
        (
            "--speculation auto --draft-ahead --draft-branches 8",
            generation_pb2.SpeculationParams(
                mode=generation_pb2.SPECULATION_MODE_AUTO, branches=8, draft_ahead=True
            ),
        ),
        ("--copies auto", generation_pb2.SpeculationParams()),
        ("--copies 0", generation_pb2.SpeculationParams(copies=0)),
        ("--copies 12", generation_pb2.SpeculationParams(copies=12)),
        (
            "--no-speculation",
            generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF),
        ),
        (
            "--speculation off",
            generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF),
        ),
    ],
)
def test_speculation_is_asked_for(
    outrider: Outrider,
    server: ScriptedServer,
    flags: str,
    speculation: generation_pb2.SpeculationParams,
) -> None:
    done = outrider("generate", "Hello", *flags.split(), "--address", server.address)
    assert done.returncode == 0
    assert server.script.requests[-1].speculation == speculation


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("--draft-length many", "auto or a whole number"),
        ("--draft-length -1", "auto or a whole number"),
        ("--speculation on --no-speculation", "contradicts"),
        ("--speculation off --draft-length 2", "--draft-length does not go with --speculation off"),
        ("--draft-branches 65", "--draft-branches"),
        ("--copies few", "auto or a whole number"),
    ],
)
def test_speculation_that_cannot_be_asked_for(
    outrider: Outrider, server: ScriptedServer, flags: str, complaint: str
) -> None:
    done = outrider("generate", "Hello", *flags.split(), "--address", server.address)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert not server.script.requests


@pytest.mark.parametrize(
    ("choice", "verification"),
    [
        ("auto", common_pb2.VERIFICATION_UNSPECIFIED),
        ("rejection", common_pb2.VERIFICATION_REJECTION),
        ("coupled", common_pb2.VERIFICATION_COUPLED),
    ],
)
def test_verification_is_asked_for(
    outrider: Outrider,
    server: ScriptedServer,
    choice: str,
    verification: common_pb2.Verification.ValueType,
) -> None:
    outrider("generate", "Hello", "--verification", choice, "--address", server.address)
    assert server.script.requests[0].sampling.verification == verification


def test_no_speculation_turns_it_off(outrider: Outrider, server: ScriptedServer) -> None:
    outrider("generate", "Hello", "--no-speculation", "--address", server.address)
    assert server.script.requests[0].speculation.mode == generation_pb2.SPECULATION_MODE_OFF


@pytest.mark.parametrize(
    ("stdin", "prompt"), [("a\nb\n", "a\nb"), ("a\n\n", "a\n"), ("día", "día"), ("", "")]
)
def test_raw_prompt_from_standard_input(
    outrider: Outrider, server: ScriptedServer, stdin: str, prompt: str
) -> None:
    outrider("generate", "-", "--raw", "--address", server.address, stdin=stdin)
    assert server.script.requests[0].WhichOneof("prompt") == "text"
    assert server.script.requests[0].text == prompt


def test_a_prompt_that_is_not_utf8_is_refused(outrider: Outrider, server: ScriptedServer) -> None:
    done = outrider("generate", "-", "--address", server.address, stdin=b"ab\xff")
    assert done.returncode == 2
    assert "not UTF-8" in done.stderr
    assert "byte 2" in done.stderr
    assert not server.script.requests


def test_without_a_chat_template_the_prompt_is_continued(
    outrider: Outrider, server: ScriptedServer
) -> None:
    server.script.chat_error = server.script.error_status(
        grpc.StatusCode.INVALID_ARGUMENT,
        "no template",
        "INVALID_FIELD",
        field="chat",
        allowed="unset, since the model has no chat template",
    )
    done = outrider("generate", "Hello", "--address", server.address)
    assert (done.returncode, done.stdout) == (0, TEXT)
    assert "no chat template" in done.stderr
    assert server.script.requests[-1].text == "Hello"
    refused = outrider("generate", "Hello", "--system", "Rhyme", "--address", server.address)
    assert (refused.returncode, refused.stdout) == (1, "")


def test_json_is_one_object(outrider: Outrider, server: ScriptedServer) -> None:
    done = outrider("generate", "Hello", "--json", "--address", server.address)
    report = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    speculation = report.pop("speculation")
    assert report == {
        "text": TEXT,
        "token_ids": [5, 6, 7, 8, 9],
        "finish_reason": "length",
        "usage": {"prompt_tokens": 7, "output_tokens": 5},
        "seed": 2**64 - 1,
        "model": "scripted",
        "reproducible": True,
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
    }
    assert speculation["accepted_per_position"] == [1, 1, 0, 0]
    assert speculation["acceptance_rate"] == 0.25
    assert speculation["tokens_per_s"] == pytest.approx(20.0)


def test_a_refusal_names_field_and_range(outrider: Outrider, server: ScriptedServer) -> None:
    server.script.events = []
    server.script.error = server.script.error_status(
        grpc.StatusCode.INVALID_ARGUMENT,
        "not like this",
        "INVALID_FIELD",
        field="sampling.temperature",
        allowed="0 to 100",
    )
    done = outrider("generate", "Hello", "--temperature", "nan", "--address", server.address)
    assert (done.returncode, done.stdout) == (1, "")
    assert "sampling.temperature" in done.stderr
    assert "0 to 100" in done.stderr
    assert "INVALID_ARGUMENT" in done.stderr


def test_an_empty_pool_is_told_from_a_missing_server(
    outrider: Outrider, server: ScriptedServer
) -> None:
    server.script.events = []
    server.script.error = server.script.error_status(
        grpc.StatusCode.UNAVAILABLE, "no target is ready", "POOL_UNAVAILABLE"
    )
    once = ("--json", "--patience", "0", "--address", server.address)
    done = outrider("generate", "Hello", *once)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no target is ready" in done.stderr
    assert "0.5 s" in done.stderr
    assert "outrider up" not in done.stderr


def test_a_missing_server_is_said_with_what_to_do(outrider: Outrider) -> None:
    done = outrider("generate", "Hello", "--address", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1:1" in done.stderr
    assert "outrider up" in done.stderr


def test_an_output_without_a_summary_is_a_failure(
    outrider: Outrider, server: ScriptedServer
) -> None:
    server.script.events.pop()
    done = outrider("generate", "Hello", "--address", server.address)
    assert done.returncode == 1
    assert done.stdout == "Grüße, 世界"
    assert "without a summary" in done.stderr


def test_tls_with_a_certificate_on_both_sides(
    outrider: Outrider, secure_server: ScriptedServer
) -> None:
    generate = ("generate", "Hello", "--address", secure_server.address)
    trust = ("--tls-ca", str(secure_server.certificate))
    own = ("--tls-cert", str(secure_server.certificate), "--tls-key", str(secure_server.key))
    assert outrider(*generate, *trust, *own).stdout == TEXT
    assert outrider(*generate, *trust).returncode == 1
    assert outrider(*generate).returncode == 1

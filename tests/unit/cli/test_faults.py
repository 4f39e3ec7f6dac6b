"""Wrong flags: exit code 2, nothing sent, the flag named."""

from __future__ import annotations

import socket

import pytest
from typer.testing import CliRunner

from outrider import __version__
from outrider.cli.main import app


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["generate"], "prompt"),
        (["generate", "x", "--top-k", "-1"], "--top-k"),
        (["generate", "x", "--top-k", "4294967296"], "--top-k"),
        (["generate", "x", "--seed", "18446744073709551616"], "--seed"),
        (["generate", "x", "--temperature", "warm"], "--temperature"),
        (["generate", "x", "--max-new-tokens", "1.5"], "--max-new-tokens"),
        (["generate", "x", "--address", "localhost"], "--address"),
        (["generate", "x", "--address", "localhost:http"], "--address"),
        (["generate", "x", "--address", "localhost:65536"], "--address"),
        (["generate", "x", "--tls-ca", "/nowhere/ca.pem"], "--tls-ca"),
        (["generate", "x", "--raw", "--system", "y"], "--system"),
        (["generate", "x", "--no-speculation", "--draft-length", "2"], "--draft-length"),
        (["status", "--addres", "a:1"], "--addres"),
        (["launch"], "launch"),
        (["up", "--port", "70000"], "--port"),
        (["up", "--port", "65535"], "--port"),
        (["demo", "--max-new-tokens", "1"], "--max-new-tokens"),
    ],
)
def test_a_wrong_flag_is_named(arguments: list[str], named: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert named in result.stderr.lower()
    assert result.stdout == ""


def test_a_wrong_address_in_the_environment_is_named() -> None:
    result = CliRunner().invoke(app, ["status"], env={"OUTRIDER_ADDRESS": "localhost"})
    assert result.exit_code == 2
    assert "OUTRIDER_ADDRESS" in result.stderr


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_version(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert __version__ in result.stdout


def test_help_lists_exit_codes() -> None:
    assert "Exit codes" in CliRunner().invoke(app, ["--help"]).stdout


@pytest.mark.parametrize("service", ["target", "draft", "coordinator"])
def test_all_faults_of_settings_come_at_once(service: str) -> None:
    """Each with the flag or the variable that it came from, and what is allowed."""
    flags = ["--log-level", "loud", "--listen", "0.0.0.0:7400"]
    environment = {"OUTRIDER_DRAIN_S": "-1", "OUTRIDER_LOG_LEVLE": "info"}
    result = CliRunner().invoke(app, ["serve", service, *flags], env=environment)
    assert result.exit_code == 2
    assert "--log-level=loud: must be one of debug, info" in result.stderr
    assert "--listen=0.0.0.0:7400: must be a loopback address" in result.stderr
    assert "OUTRIDER_DRAIN_S=-1: must be a number, 0 to 3600" in result.stderr
    assert "OUTRIDER_LOG_LEVLE is not a setting" in result.stderr
    assert "did you mean OUTRIDER_LOG_LEVEL?" in result.stderr
    assert result.stdout == ""


def test_up_reports_the_faults_of_all_services_before_it_starts_any() -> None:
    flags = ["--port", "0", "--dtype", "int4", "--threads", "9999", "--draft-length", "65"]
    result = CliRunner().invoke(app, ["up", *flags])
    assert result.exit_code == 2
    for fault in ("DTYPE=int4", "THREADS=9999", "DRAFT_LENGTH=65"):
        assert result.stderr.count(fault) == 1


def test_up_names_ports_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        if port + 21 > 65535 or port < 22:
            pytest.skip("the port leaves no room for the others")
        result = CliRunner().invoke(app, ["up", "--port", str(port)])
    assert result.exit_code == 1
    assert str(port) in result.stderr
    assert "--port 0" in result.stderr

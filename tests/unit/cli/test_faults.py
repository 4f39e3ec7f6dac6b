"""Wrong flags: exit code 2, nothing sent, the flag named."""

from __future__ import annotations

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

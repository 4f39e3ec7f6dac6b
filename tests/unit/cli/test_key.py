"""Keys as the commands make, take and withhold them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.main import app
from outrider.cli.options import without_keys
from outrider.client import Client, ClientError
from outrider.rpc.api_keys import key_line, read_keys
from outrider.rpc.tls import TlsFiles


def test_a_made_key_fits_its_line_and_no_other(tmp_path: Path) -> None:
    results = [CliRunner().invoke(app, ["key", "--tenant", "team-a"]) for _ in range(2)]
    lines = [result.stdout.splitlines() for result in results]
    keys = [key.removeprefix("key ") for key, _ in lines]
    assert len(set(keys)) == 2
    for key, (_, line) in zip(keys, lines, strict=True):
        assert key.startswith("or-")
        assert line == f"line {key_line('team-a', key)}"
        assert key not in line
    file = tmp_path / "keys"
    file.write_text("".join(line.removeprefix("line ") + "\n" for _, line in lines))
    assert set(read_keys(file).values()) == {"team-a"}


@pytest.mark.parametrize("tenant", ["", "a b", "a:b", "ä", "x" * 65])
def test_a_tenant_has_a_plain_name(tenant: str) -> None:
    result = CliRunner().invoke(app, ["key", "--tenant", tenant])
    assert result.exit_code == 2
    assert "--tenant" in result.output
    assert "or-" not in result.stdout


def test_keys_are_left_out_of_a_command_line() -> None:
    words = ["bench", "--api-key", "or-1", "--api-key=or-2", "--out", "x.json"]
    assert without_keys(words) == ["bench", "--api-key", "…", "--api-key=…", "--out", "x.json"]
    assert without_keys(["--api-key"]) == ["--api-key"]


def test_a_key_does_not_leave_the_machine_in_the_clear() -> None:
    with pytest.raises(ClientError, match="TLS") as caught:
        Client("10.0.0.1:7400", api_key="or-secret")
    assert "or-secret" not in str(caught.value)
    with Client("127.0.0.1:7400", api_key="or-secret") as client:
        assert client


def test_files_that_hold_no_certificates_are_told(tmp_path: Path) -> None:
    empty = tmp_path / "ca.pem"
    empty.write_text("none")
    with pytest.raises(ClientError, match=r"ca\.pem"):
        Client("127.0.0.1:7400", tls=TlsFiles(authority=empty))

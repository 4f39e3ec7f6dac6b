"""Wrong flags of `outrider bench`: exit code 2, the flag named, no file written."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.main import app

NOBODY = "127.0.0.1:9"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("--round-trip-ms 20", "--round-trip-ms does not go with --server"),
        ("--pin", "--pin does not go with --server"),
        ("--draft-model embedded", "--draft-model does not go with --server"),
        ("--concurrency 0", "--concurrency"),
        ("--concurrency 1,,2", "--concurrency"),
        ("--concurrency 5000", "--concurrency"),
        ("--draft-length 3,many", "got '3,many'"),
        ("--draft-length 0", "--draft-length"),
        ("--draft-branches 65", "--draft-branches"),
        ("--kind poems", "--kind"),
        ("--verification trust", "--verification"),
        ("--prompts gone.jsonl", "gone.jsonl"),
        ("--out result.txt", "must end in .json"),
        ("--out gone/result.json", "cannot be written"),
        ("--seconds 0", "--seconds"),
        ("--requests 0", "--requests"),
        ("--max-new-tokens 1", "--max-new-tokens"),
        ("--server localhost", "host:port"),
    ],
)
def test_a_wrong_flag_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["bench", "--server", NOBODY, *flags.split()])
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trips", ["-1", "nan", "inf", "20000", "0,,5"])
def test_a_wrong_round_trip_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trips: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["bench", "--round-trip-ms", trips])
    assert result.exit_code == 2
    assert "--round-trip-ms" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bad_line_of_prompts_is_named(tmp_path: Path) -> None:
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text('{"prompt": "fine"}\n{"prompt": 1}\n')
    flags = ["--prompts", str(prompts), "--out", str(tmp_path / "result.json")]
    result = CliRunner().invoke(app, ["bench", "--server", NOBODY, *flags])
    assert result.exit_code == 2
    assert f"{prompts}, line 2:" in result.stderr

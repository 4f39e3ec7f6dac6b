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
        ("--copies many", "--copies"),
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


@pytest.mark.parametrize(
    ("option", "words"),
    [
        *(("--drafter", words) for words in ("foo", "mixed=", "=folder", ",")),
        *(("--round-trip-ms", words) for words in ("-1", "nan", "inf", "20000", "0,,5")),
    ],
)
def test_wrong_words_for_a_pair_of_its_own_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["bench", option, words])
    assert result.exit_code == 2
    assert option in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    ["--drafter mixed,suffix --copies 0", "--drafter ngram --copies 0 --draft-length 4,auto"],
)
def test_drafts_that_would_have_nothing_to_propose_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["bench", *words.split()])
    assert result.exit_code == 2
    assert "nothing to propose" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bad_line_of_prompts_is_named(tmp_path: Path) -> None:
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text('{"prompt": "fine"}\n{"prompt": 1}\n')
    flags = ["--prompts", str(prompts), "--out", str(tmp_path / "result.json")]
    result = CliRunner().invoke(app, ["bench", "--server", NOBODY, *flags])
    assert result.exit_code == 2
    assert f"{prompts}, line 2:" in result.stderr

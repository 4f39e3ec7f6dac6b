"""Flags of `outrider up` that do not go together: exit code 2, nothing started."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from outrider.cli.main import app


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("--drafter suffix --copies 0", "nothing to propose"),
        ("--drafter ngram --copies 0 --draft-length auto", "nothing to propose"),
    ],
)
def test_flags_that_do_not_go_together_are_named(flags: str, complaint: str) -> None:
    result = CliRunner().invoke(app, ["up", "--port", "0", *flags.split()])
    assert result.exit_code == 2
    assert complaint in result.stderr

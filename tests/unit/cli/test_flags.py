"""Flags and settings are the same list."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from outrider.cli.flags import flag_name, with_flags
from outrider.cli.main import app
from outrider.settings import CoordinatorSettings, DraftSettings, ServiceSettings, TargetSettings

KINDS = {"target": TargetSettings, "draft": DraftSettings, "coordinator": CoordinatorSettings}


@pytest.mark.parametrize(("service", "kind"), KINDS.items())
def test_every_setting_has_a_flag_with_its_variable(
    service: str, kind: type[ServiceSettings]
) -> None:
    shown = CliRunner().invoke(app, ["serve", service, "--help"], env={"COLUMNS": "300"}).stdout
    for name, field in kind.model_fields.items():
        assert f"{flag_name(name)} " in shown
        assert f"OUTRIDER_{name.upper()}" in shown
        assert str(field.description).split()[0] in shown


def test_a_flag_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_THREADS", "3")
    monkeypatch.setenv("OUTRIDER_MODEL", "elsewhere")
    found: list[TargetSettings] = []
    run = with_flags(TargetSettings, found.append, on_fault=pytest.fail)
    run(threads="2", model=None, insecure=True)
    assert (found[0].threads, found[0].model, found[0].insecure) == (2, "elsewhere", True)


def test_what_is_on_by_default_can_be_turned_off() -> None:
    shown = CliRunner().invoke(app, ["serve", "target", "--help"], env={"COLUMNS": "300"}).stdout
    assert "OUTRIDER_GATHER; default on" in shown
    words = ["serve", "target", "--no-gather", "--kv-memory", "plenty"]
    refused = CliRunner().invoke(app, words).output
    assert "No such option" not in refused
    assert "--kv-memory=plenty" in refused


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("outrider.cli.main", ("torch", "transformers", "opentelemetry", "coordinator")),
        ("coordinator.main", ("torch", "transformers", "target_service", "draft_service")),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(
    module: str, absent: tuple[str, ...]
) -> None:
    check = f"import sys, {module}; print(*(set({absent!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "\n"

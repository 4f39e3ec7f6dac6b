"""Which settings keep strangers out, and which combinations would not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.settings import (
    CoordinatorSettings,
    DraftSettings,
    ServiceSettings,
    SettingsError,
    TargetSettings,
    WorkerSettings,
    all_environment_names,
    load_settings,
)

WORKERS: list[type[WorkerSettings]] = [TargetSettings, DraftSettings]
EVERYWHERE = "0.0.0.0:1"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in all_environment_names():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def pem(tmp_path: Path) -> dict[str, Path]:
    """Files of a certificate, its key and an authority."""
    files = {name: tmp_path / f"{name}.pem" for name in ("tls_cert", "tls_key", "tls_ca")}
    for path in files.values():
        path.touch()
    return files


def faults_of(kind: type[ServiceSettings], **flags: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(kind, flags)
    return caught.value.faults


@pytest.mark.parametrize("kind", WORKERS)
def test_an_authority_and_its_callers_protect_a_worker(
    kind: type[WorkerSettings], pem: dict[str, Path]
) -> None:
    names = "coordinator.outrider, spiffe://cluster/ns/outrider/sa/coordinator"
    settings = load_settings(kind, {"listen": EVERYWHERE, "allowed_callers": names, **pem})
    assert settings.caller_names == [
        "coordinator.outrider",
        "spiffe://cluster/ns/outrider/sa/coordinator",
    ]
    assert load_settings(kind, {"allowed_callers": "*", **pem}).caller_names == ["*"]
    assert load_settings(kind).caller_names == []


@pytest.mark.parametrize("kind", WORKERS)
def test_a_certificate_alone_protects_no_worker(
    kind: type[WorkerSettings], pem: dict[str, Path]
) -> None:
    del pem["tls_ca"]
    (fault,) = faults_of(kind, listen=EVERYWHERE, **pem)
    assert fault.startswith(f"OUTRIDER_LISTEN={EVERYWHERE}")
    assert "OUTRIDER_TLS_CA" in fault


@pytest.mark.parametrize("kind", WORKERS)
def test_an_authority_needs_callers_and_callers_an_authority(
    kind: type[WorkerSettings], pem: dict[str, Path]
) -> None:
    (fault,) = faults_of(kind, **pem)
    assert fault.startswith("OUTRIDER_ALLOWED_CALLERS=: must be set together with OUTRIDER_TLS_CA")
    (fault,) = faults_of(kind, allowed_callers="coordinator")
    assert "OUTRIDER_TLS_CA" in fault


@pytest.mark.parametrize("kind", WORKERS)
def test_a_worker_that_checks_callers_shows_a_certificate(
    kind: type[WorkerSettings], pem: dict[str, Path]
) -> None:
    (fault,) = faults_of(kind, tls_ca=pem["tls_ca"], allowed_callers="*")
    assert "OUTRIDER_TLS_CERT" in fault


@pytest.mark.parametrize("names", ["a b", "a,", "a,,b", "*.outrider", "ä", "spiffe://a b", "CN=x"])
def test_callers_are_names(names: str, pem: dict[str, Path]) -> None:
    (fault,) = faults_of(TargetSettings, allowed_callers=names, **pem)
    assert "parted by commas" in fault


def test_keys_protect_a_coordinator(pem: dict[str, Path]) -> None:
    keys, pair = pem["tls_ca"], {name: pem[name] for name in ("tls_cert", "tls_key")}
    flags = {"listen": EVERYWHERE, "api_keys_file": keys, **pair}
    assert load_settings(CoordinatorSettings, flags).api_keys_file == keys
    (fault,) = faults_of(CoordinatorSettings, listen=EVERYWHERE, **pair)
    assert fault.startswith("OUTRIDER_API_KEYS_FILE is unset")
    assert load_settings(CoordinatorSettings, {"listen": EVERYWHERE, "insecure": True, **pair})


def test_keys_travel_with_tls_alone(pem: dict[str, Path]) -> None:
    (fault,) = faults_of(CoordinatorSettings, listen=EVERYWHERE, api_keys_file=pem["tls_ca"])
    assert fault.startswith(f"OUTRIDER_LISTEN={EVERYWHERE}")
    assert load_settings(CoordinatorSettings, {"api_keys_file": pem["tls_ca"]})


def test_a_public_certificate_comes_with_its_key_and_in_place_of_another(
    pem: dict[str, Path],
) -> None:
    public = {"public_tls_cert": pem["tls_cert"], "public_tls_key": pem["tls_key"]}
    inner = {"tls_cert": pem["tls_cert"], "tls_key": pem["tls_key"]}
    assert load_settings(CoordinatorSettings, {**public, **inner})
    (fault,) = faults_of(CoordinatorSettings, public_tls_cert=pem["tls_cert"], **inner)
    assert fault.startswith("OUTRIDER_PUBLIC_TLS_KEY is unset")
    (fault,) = faults_of(CoordinatorSettings, **public)
    assert "OUTRIDER_TLS_CERT" in fault


@pytest.mark.parametrize("kind", [CoordinatorSettings, *WORKERS])
def test_health_may_be_shown_to_everyone(kind: type[ServiceSettings]) -> None:
    assert load_settings(kind).health_listen == ""
    assert load_settings(kind, {"health_listen": EVERYWHERE}).health_listen == EVERYWHERE
    (fault,) = faults_of(kind, health_listen="here")
    assert "host:port" in fault

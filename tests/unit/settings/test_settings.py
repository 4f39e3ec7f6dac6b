"""Settings from flags and environment, and how wrong ones are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.memory_budget import MemoryBudget
from outrider.settings import (
    CoordinatorSettings,
    DraftSettings,
    DraftTrust,
    DtypeChoice,
    ServiceSettings,
    SettingsError,
    SpeculationChoice,
    TargetSettings,
    all_environment_names,
    environment_names,
    load_settings,
    unknown_names,
)

KINDS: list[type[ServiceSettings]] = [CoordinatorSettings, TargetSettings, DraftSettings]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in all_environment_names():
        monkeypatch.delenv(name, raising=False)


def faults_of(kind: type[ServiceSettings], **flags: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(kind, flags)
    return caught.value.faults


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_valid_and_on_the_loopback_interface(kind: type[ServiceSettings]) -> None:
    assert load_settings(kind).listen.startswith("127.0.0.1:")


def test_default_addresses_meet() -> None:
    coordinator = load_settings(CoordinatorSettings)
    assert coordinator.target_address == load_settings(TargetSettings).listen
    assert coordinator.draft_address == load_settings(DraftSettings).listen


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_it_is(kind: type[ServiceSettings]) -> None:
    for name, field in kind.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_variables_set_fields_and_flags_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_DRAFT_LENGTH", "7")
    monkeypatch.setenv("OUTRIDER_SPECULATION", "off")
    monkeypatch.setenv("OUTRIDER_DRAFT_TRUST", "untrusted")
    settings = load_settings(CoordinatorSettings, {"draft_length": 2, "speculation": None})
    assert settings.draft_length == 2
    assert settings.speculation is SpeculationChoice.OFF
    assert settings.draft_trust is DraftTrust.UNTRUSTED


def test_an_empty_variable_is_unset_but_for_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in all_environment_names():
        monkeypatch.setenv(name, "")
    coordinator = load_settings(CoordinatorSettings)
    assert coordinator.draft_address == ""
    assert coordinator.target_address == "127.0.0.1:7421"
    assert load_settings(TargetSettings).dtype is DtypeChoice.AUTO


def test_all_faults_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_DRAFT_CANDIDATES", "300")
    monkeypatch.setenv("OUTRIDER_THREADS", "many")
    monkeypatch.setenv("OUTRIDER_DTYPE", "int8")
    monkeypatch.setenv("OUTRIDER_INSECURE", "perhaps")
    with pytest.raises(SettingsError) as caught:
        load_settings(DraftSettings, {"draft_candidate_mass": 0, "lease_s": float("nan")})
    lines = str(caught.value).splitlines()
    assert lines[0] == "6 settings are wrong:"
    for part in (
        "OUTRIDER_DRAFT_CANDIDATES=300: must be a whole number, 1 to 256",
        "OUTRIDER_THREADS=many: must be a whole number, 0 to 1024",
        "OUTRIDER_DTYPE=int8: must be one of auto, float64, float32, bfloat16, float16",
        "OUTRIDER_INSECURE=perhaps: must be true or false",
        "OUTRIDER_DRAFT_CANDIDATE_MASS=0: must be a number, above 0 up to 1",
        "OUTRIDER_LEASE_S=nan: must be a number, above 0 up to 3600",
    ):
        assert any(line.strip().startswith(part) for line in lines), part


@pytest.mark.parametrize("value", ["127.0.0.1", "127.0.0.1:65536", "a b:1", "dns:///x:1", ":1"])
def test_a_listener_is_host_and_port(value: str) -> None:
    (fault,) = faults_of(TargetSettings, listen=value)
    assert "host:port" in fault


@pytest.mark.parametrize("address", ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "host.example:1"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_listener_beyond_this_machine_needs_protection(
    kind: type[ServiceSettings], address: str
) -> None:
    (fault,) = faults_of(kind, listen=address)
    assert "OUTRIDER_INSECURE=true" in fault
    assert load_settings(kind, {"listen": address, "insecure": True}).listen == address


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0", "localhost:0", "127.8.8.8:1"])
def test_loopback_needs_none(address: str) -> None:
    assert load_settings(TargetSettings, {"listen": address}).listen == address


def test_certificate_and_key_come_together(tmp_path: Path) -> None:
    certificate = tmp_path / "cert.pem"
    certificate.touch()
    (fault,) = faults_of(TargetSettings, tls_cert=certificate)
    assert fault.startswith("OUTRIDER_TLS_KEY is unset")


def test_files_must_be_readable(tmp_path: Path) -> None:
    (fault,) = faults_of(TargetSettings, tls_ca=tmp_path / "none.pem")
    assert fault.startswith(f"OUTRIDER_TLS_CA={tmp_path}/none.pem")


def test_workers_beyond_this_machine_need_protection() -> None:
    faults = faults_of(CoordinatorSettings, target_address="target:7421", draft_address="draft:1")
    assert [fault.split("=")[0] for fault in faults] == [
        "OUTRIDER_TARGET_ADDRESS",
        "OUTRIDER_DRAFT_ADDRESS",
    ]
    flags = {"target_address": "dns:///target:7421", "insecure": True}
    assert load_settings(CoordinatorSettings, flags).target_address == "dns:///target:7421"


@pytest.mark.parametrize("address", ["target", "target:0", "target:99999", "http://target:1"])
def test_a_worker_address_is_host_and_port(address: str) -> None:
    (fault,) = faults_of(CoordinatorSettings, target_address=address, insecure=True)
    assert "host:port" in fault


def test_a_flag_that_is_no_field_is_an_error_of_the_program() -> None:
    with pytest.raises(TypeError, match="no field colour"):
        load_settings(TargetSettings, {"colour": "blue"})


def test_names_of_variables() -> None:
    assert "OUTRIDER_MAX_DRAFT_LENGTH" in environment_names(TargetSettings)
    assert "OUTRIDER_MAX_DRAFT_LENGTH" not in environment_names(DraftSettings)
    union = frozenset[str]().union(*(environment_names(kind) for kind in KINDS))
    assert all_environment_names() == union | {"OUTRIDER_ADDRESS", "OUTRIDER_API_KEY"}


def test_a_typing_error_is_told_with_the_nearest_name() -> None:
    environment = {"OUTRIDER_DRAFT_LENGHT": "4", "OUTRIDER_MODEL": "x", "OTHER": "", "HOME": ""}
    (line,) = unknown_names(environment)
    assert "OUTRIDER_DRAFT_LENGHT" in line
    assert "did you mean OUTRIDER_DRAFT_LENGTH?" in line
    (far,) = unknown_names({"OUTRIDER_XYZZY_QQ": ""})
    assert "did you mean" not in far


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("kv_memory", "lots", "auto, a share such as 0.9 or 30%, or bytes such as 8GiB or 512MiB"),
        ("kv_memory", "120%", "auto, a share such as 0.9 or 30%, or bytes such as 8GiB or 512MiB"),
        ("pin_cores", "3-1", "processor cores such as 0, 0-3 or 0,2,4-7, each below 4096"),
        ("compile", "perhaps", "true or false"),
        ("kv_block_size", "24", "one of 8, 16, 32, 64, 128"),
        ("kv_block_size", "x", "one of 8, 16, 32, 64, 128"),
        ("token_budget", "64", "a whole number, 128 to 1048576"),
        ("prefill_slice", "auto", "a whole number, 0 to 1048576"),
        ("gather", "perhaps", "true or false"),
        ("admission_queue", "-1", "a whole number, 0 to 100000"),
        ("admission_wait_s", "nan", "a number, 0 to 3600"),
    ],
)
@pytest.mark.parametrize("kind", [TargetSettings, DraftSettings])
def test_settings_of_the_engine_are_checked(
    kind: type[ServiceSettings], name: str, value: str, allowed: str
) -> None:
    (fault,) = faults_of(kind, **{name: value})
    assert fault.startswith(f"OUTRIDER_{name.upper()}={value}: must be {allowed}. ")


def test_memory_for_kv_state_is_a_share_or_bytes() -> None:
    assert load_settings(TargetSettings).kv_budget == MemoryBudget()
    assert load_settings(TargetSettings, {"kv_memory": "30%"}).kv_budget.share == 0.3
    assert load_settings(DraftSettings, {"kv_memory": "2GiB"}).kv_budget.size == 2 << 30


def test_a_model_has_a_thread_for_each_of_its_cores() -> None:
    settings = load_settings(TargetSettings, {"pin_cores": "0-2,5"})
    assert settings.model_cores == {0, 1, 2, 5}
    assert settings.model_threads == 4
    assert load_settings(TargetSettings, {"pin_cores": "0-2", "threads": 1}).model_threads == 1
    assert load_settings(TargetSettings).model_cores == frozenset()
    assert load_settings(TargetSettings).model_threads == 0


def test_the_public_name_of_a_model_is_the_model_unless_set() -> None:
    assert load_settings(TargetSettings, {"model": "/models/a"}).public_name == "/models/a"
    flags = {"model": "/models/a", "model_name": "a"}
    assert load_settings(TargetSettings, flags).public_name == "a"

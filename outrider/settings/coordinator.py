"""What can be set in a coordinator."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from outrider.branch_limits import MOST_BRANCHES
from outrider.settings.addresses import (
    check_listener,
    check_peers,
    is_loopback,
    split_addresses,
)
from outrider.settings.service import ExistingFile, ServiceSettings

MIB = 1 << 20
AUTO = "auto"


def _none_if_auto(value: object) -> object:
    """None stands for a number that is chosen by measurement."""
    return None if value == AUTO else value


class SpeculationChoice(StrEnum):
    """Whether requests that do not say use draft tokens."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class DraftTrust(StrEnum):
    """Whether the laws that a draft pool reports are believed."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"


class CoordinatorSettings(ServiceSettings):
    """Settings of a coordinator."""

    listen: Annotated[str, AfterValidator(check_listener)] = Field(
        "127.0.0.1:7400", description="Address to listen on, host:port. Port 0: a free one."
    )
    target_address: Annotated[str, AfterValidator(check_peers)] = Field(
        "127.0.0.1:7421",
        description="Where the targets listen, host:port, parted by commas. A name stands for all "
        "its addresses.",
    )
    draft_address: str = Field(
        "127.0.0.1:7411",
        description="Where the drafts listen, in the same form. Empty: there is none.",
    )
    target_wait_s: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="Seconds that a generation whose target is gone waits for another, within its "
        "own deadline.",
    )
    public_tls_cert: ExistingFile | None = Field(
        None,
        description="PEM file with the certificate chain that clients see. Needs public_tls_key. "
        "Unset: as in tls_cert.",
    )
    public_tls_key: ExistingFile | None = Field(
        None, description="PEM file with that certificate's private key. Needs public_tls_cert."
    )
    api_keys_file: ExistingFile | None = Field(
        None,
        description="File with a line tenant:SHA-256 for each key that clients may show; "
        "`outrider key` makes them. Unset: clients need none.",
    )
    speculation: SpeculationChoice = Field(
        SpeculationChoice.AUTO, description="Whether requests that do not say use draft tokens."
    )
    draft_length: Annotated[int | None, BeforeValidator(_none_if_auto)] = Field(
        None,
        ge=0,
        le=64,
        description="Draft tokens in each round, for requests that do not say. auto, the default: "
        "chosen round by round.",
        json_schema_extra={"allowed": "auto or a whole number, 0 to 64"},
    )
    draft_ahead: bool = Field(
        True, description="Whether the draft goes on while the target verifies."
    )
    draft_branches: Annotated[int | None, BeforeValidator(_none_if_auto)] = Field(
        None,
        ge=0,
        le=MOST_BRANCHES,
        description="Most side branches that the draft prepares for likely corrections. auto, the "
        "default: chosen round by round.",
        json_schema_extra={"allowed": f"auto or a whole number, 0 to {MOST_BRANCHES}"},
    )
    copies: Annotated[int | None, BeforeValidator(_none_if_auto)] = Field(
        None,
        ge=0,
        le=64,
        description="Most tokens copied from earlier text in each round, beyond its draft length, "
        "where the draft copies. auto, the default: as many as pay.",
        json_schema_extra={"allowed": "auto or a whole number, 0 to 64"},
    )
    draft_timeout_ms: int = Field(
        250,
        ge=1,
        le=60_000,
        description="Milliseconds to wait for draft tokens before a round goes without.",
    )
    draft_trust: DraftTrust = Field(
        DraftTrust.TRUSTED, description="Whether the draft's reported laws are believed."
    )
    tokenizer_digest: str = Field(
        "",
        pattern="^([0-9a-f]{64})?$",
        description="SHA-256 that the target's tokenizer must have. Empty: any.",
        json_schema_extra={"allowed": "64 hexadecimal digits in lower case, or empty"},
    )
    max_new_tokens: int = Field(
        32_768, ge=1, le=10_000_000, description="Most output tokens a request may ask for."
    )
    max_request_bytes: int = Field(
        4 * MIB, ge=1024, le=256 * MIB, description="Most bytes of one request."
    )
    max_generations: int = Field(
        256, ge=1, le=100_000, description="Most generations that run at once; more wait."
    )
    max_waiting: int = Field(
        256, ge=0, le=100_000, description="Most generations that wait; more are refused."
    )
    queue_wait_s: float = Field(
        10.0, ge=0, le=3600, description="Seconds that a generation waits before it is refused."
    )

    @field_validator("public_tls_key")
    @classmethod
    def _public_key_and_certificate(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        chain = info.data.get("public_tls_cert", key)
        if (key is None) != (chain is None):
            raise ValueError("set together with OUTRIDER_PUBLIC_TLS_CERT, or neither of them")
        if key is not None and not info.data.get("tls_cert", True):
            raise ValueError("set with OUTRIDER_TLS_CERT, whose place it takes towards clients")
        return key

    @field_validator("api_keys_file")
    @classmethod
    def _strangers_stay_out(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        open_to_all = path is None and not info.data.get("insecure", True)
        if open_to_all and not is_loopback(info.data.get("listen", "localhost:0")):
            raise ValueError(
                "set for a listener beyond this machine, unless OUTRIDER_INSECURE=true"
            )
        return path

    @field_validator("draft_address")
    @classmethod
    def _draft_is_a_peer(cls, address: str) -> str:
        return check_peers(address) if address else address

    @field_validator("target_address", "draft_address")
    @classmethod
    def _worker_is_protected(cls, address: str, info: ValidationInfo) -> str:
        open_to_all = not info.data.get("insecure", True) and not info.data.get("tls_ca", True)
        peers = split_addresses(address) if address else []
        if open_to_all and not all(map(is_loopback, peers)):
            raise ValueError(
                "loopback addresses, unless OUTRIDER_TLS_CA is set or OUTRIDER_INSECURE=true"
            )
        return address

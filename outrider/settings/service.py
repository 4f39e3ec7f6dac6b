"""What can be set in every service, with units, ranges and defaults.

Every field is read from the flag of its name, else from `OUTRIDER_<NAME>`. An empty variable is
one that is not set, except where a field says what empty means. Each default stands in the class
of its service and nowhere else.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticUseDefault
from pydantic_settings import BaseSettings, SettingsConfigDict

from outrider.settings.addresses import check_listener, is_loopback

PREFIX = "OUTRIDER_"


class LogLevel(StrEnum):
    """The least severe messages that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a log line looks: for people or for programs."""

    CONSOLE = "console"
    JSON = "json"


def _readable(path: Path) -> Path:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"the path of a readable file ({error.strerror})") from None
    return path


ExistingFile = Annotated[
    Path,
    AfterValidator(_readable),
    Field(json_schema_extra={"allowed": "the path of a readable file"}),
]


class ServiceSettings(BaseSettings):
    """What every service has: a listener, TLS, logs and an end."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    insecure: bool = Field(
        False,
        description="Allow connections without TLS, and calls without certificates or keys, "
        "beyond the loopback interface.",
    )
    tls_cert: ExistingFile | None = Field(
        None, description="PEM file with this service's certificate chain. Needs tls_key."
    )
    tls_key: ExistingFile | None = Field(
        None, description="PEM file with the certificate's private key. Needs tls_cert."
    )
    tls_ca: ExistingFile | None = Field(
        None,
        description="PEM file with the authorities of peers' certificates. A worker's callers must "
        "then show one; a coordinator connects to its workers with TLS.",
    )
    listen: Annotated[str, AfterValidator(check_listener)] = Field(
        "127.0.0.1:0", description="Address to listen on, host:port. Port 0: a free one."
    )
    health_listen: str = Field(
        "",
        description="Address of a second listener, without TLS and for health alone, host:port. "
        "Empty: there is none.",
    )
    log_level: LogLevel = Field(LogLevel.INFO, description="Least severe messages to log.")
    log_format: LogFormat = Field(LogFormat.CONSOLE, description="Look of the log lines.")
    drain_s: float = Field(
        20.0,
        ge=0,
        le=3600,
        description="Seconds that open streams may go on after SIGTERM or SIGINT.",
    )
    ready_file: Path | None = Field(
        None,
        description="File to write the address to, once the service is ready.",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: Any, info: ValidationInfo) -> Any:
        """`""` has a meaning of its own where it is the default, and for `draft_address`."""
        name = info.field_name or ""
        if value == "" and name != "draft_address" and cls.model_fields[name].default != "":
            raise PydanticUseDefault
        return value

    @field_validator("tls_key")
    @classmethod
    def _key_and_certificate(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if "tls_cert" in info.data and (key is None) != (info.data["tls_cert"] is None):
            raise ValueError("set together with OUTRIDER_TLS_CERT, or neither of them")
        return key

    @field_validator("health_listen")
    @classmethod
    def _health_listener_is_an_address(cls, address: str) -> str:
        return check_listener(address) if address else address

    @field_validator("listen")
    @classmethod
    def _listener_is_protected(cls, address: str, info: ValidationInfo) -> str:
        open_to_all = not info.data.get("insecure", True) and not info.data.get("tls_cert", True)
        if open_to_all and not is_loopback(address):
            raise ValueError(
                "a loopback address, unless OUTRIDER_TLS_CERT and OUTRIDER_TLS_KEY are set "
                "or OUTRIDER_INSECURE=true"
            )
        return address

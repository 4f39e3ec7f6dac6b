"""What can be set, with units, ranges and defaults; each default stands here and nowhere else.

Every field is read from the flag of its name, else from `OUTRIDER_<NAME>`. An empty variable is
one that is not set, except where a field says what empty means.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticUseDefault
from pydantic_settings import BaseSettings, SettingsConfigDict

from outrider.settings.addresses import check_listener, check_peer, is_loopback

PREFIX = "OUTRIDER_"
MIB = 1 << 20


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


class DtypeChoice(StrEnum):
    """Numbers of the model's computation; `auto` leaves the choice to the engine."""

    AUTO = "auto"
    FLOAT64 = "float64"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class SpeculationChoice(StrEnum):
    """Whether requests that do not say use draft tokens."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class DraftTrust(StrEnum):
    """Whether the laws that a draft pool reports are believed."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"


ExistingFile = Annotated[Path, Field(json_schema_extra={"allowed": "the path of a readable file"})]


class ServiceSettings(BaseSettings):
    """What every service has: a listener, TLS, logs and an end."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    insecure: bool = Field(
        False, description="Allow connections without TLS beyond the loopback interface."
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

    @field_validator("tls_cert", "tls_key", "tls_ca")
    @classmethod
    def _file_is_readable(cls, path: Path | None) -> Path | None:
        if path is not None:
            try:
                path.open("rb").close()
            except OSError as error:
                raise ValueError(f"the path of a readable file ({error.strerror})") from None
        return path

    @field_validator("tls_key")
    @classmethod
    def _key_and_certificate(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if "tls_cert" in info.data and (key is None) != (info.data["tls_cert"] is None):
            raise ValueError("set together with OUTRIDER_TLS_CERT, or neither of them")
        return key

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


class WorkerSettings(ServiceSettings):
    """What both workers have: a model and room for KV state."""

    model: str = Field(
        "embedded",
        max_length=4096,
        description="Model to load: `embedded`, a folder, a .gguf file or a hub id.",
    )
    model_name: str = Field(
        "", max_length=256, description="Name the model is served by. Default: as in model."
    )
    dtype: DtypeChoice = Field(DtypeChoice.AUTO, description="Numbers of the computation.")
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:[0-9]+)?)$",
        description="Where the model runs.",
        json_schema_extra={"allowed": "auto, cpu, mps, cuda or cuda:N"},
    )
    threads: int = Field(
        0, ge=0, le=1024, description="Processor threads of the model. 0: one for each core."
    )
    cache_dir: Path = Field(
        Path("~/.cache/outrider"), description="Folder for models assembled at the first start."
    )
    context_length: int = Field(
        0,
        ge=0,
        le=10_000_000,
        description="Most token ids of one sequence. 0: as many as the model can.",
    )
    max_handles: int = Field(
        1024, ge=1, le=1_000_000, description="Most KV handles, cached ones included."
    )
    kv_tokens: int = Field(
        65_536,
        ge=16,
        le=1_000_000_000,
        description="Most token ids with KV state, over all handles.",
    )
    lease_s: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="Seconds that state outlives a broken stream, or stays pinned by a silent one.",
    )

    @field_validator("cache_dir")
    @classmethod
    def _expand_home(cls, path: Path) -> Path:
        return path.expanduser()

    @property
    def public_name(self) -> str:
        """The name that requests and GetModel use."""
        return self.model_name or self.model


class TargetSettings(WorkerSettings):
    """Settings of a target."""

    listen: Annotated[str, AfterValidator(check_listener)] = Field(
        "127.0.0.1:7421", description="Address to listen on, host:port. Port 0: a free one."
    )
    max_draft_length: int = Field(
        16, ge=1, le=64, description="Most draft tokens that one round may verify."
    )


class DraftSettings(WorkerSettings):
    """Settings of a draft."""

    listen: Annotated[str, AfterValidator(check_listener)] = Field(
        "127.0.0.1:7411", description="Address to listen on, host:port. Port 0: a free one."
    )
    draft_candidates: int = Field(
        40, ge=1, le=256, description="Most candidates that a draft token is drawn from."
    )
    draft_candidate_mass: float = Field(
        0.95, gt=0, le=1, description="Fewer candidates once they have this probability together."
    )


class CoordinatorSettings(ServiceSettings):
    """Settings of a coordinator."""

    listen: Annotated[str, AfterValidator(check_listener)] = Field(
        "127.0.0.1:7400", description="Address to listen on, host:port. Port 0: a free one."
    )
    target_address: Annotated[str, AfterValidator(check_peer)] = Field(
        "127.0.0.1:7421", description="Where the target listens, host:port."
    )
    draft_address: str = Field(
        "127.0.0.1:7411", description="Where the draft listens, host:port. Empty: there is none."
    )
    speculation: SpeculationChoice = Field(
        SpeculationChoice.AUTO, description="Whether requests that do not say use draft tokens."
    )
    draft_length: int = Field(
        4, ge=0, le=64, description="Draft tokens in each round, for requests that do not say."
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
        256, ge=1, le=100_000, description="Most generations in flight; more are refused."
    )

    @field_validator("draft_address")
    @classmethod
    def _draft_is_a_peer(cls, address: str) -> str:
        return check_peer(address) if address else address

    @field_validator("target_address", "draft_address")
    @classmethod
    def _worker_is_protected(cls, address: str, info: ValidationInfo) -> str:
        open_to_all = not info.data.get("insecure", True) and not info.data.get("tls_ca", True)
        if address and open_to_all and not is_loopback(address):
            raise ValueError(
                "a loopback address, unless OUTRIDER_TLS_CA is set or OUTRIDER_INSECURE=true"
            )
        return address

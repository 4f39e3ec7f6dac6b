"""What can be set in a target and in a draft."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from outrider.core_list import ALLOWED as CORES_ALLOWED
from outrider.core_list import parse_cores
from outrider.drafter import Drafter
from outrider.memory_budget import ALLOWED as MEMORY_ALLOWED
from outrider.memory_budget import MemoryBudget
from outrider.settings.addresses import check_listener, is_loopback
from outrider.settings.callers import ALLOWED as CALLERS_ALLOWED
from outrider.settings.callers import check_callers, split_callers
from outrider.settings.service import ServiceSettings

KV_BLOCK_SIZES = (8, 16, 32, 64, 128)


class DtypeChoice(StrEnum):
    """Numbers of the model's computation; `auto` leaves the choice to the engine."""

    AUTO = "auto"
    FLOAT64 = "float64"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class EngineChoice(StrEnum):
    """Where the model and its loop run."""

    THREAD = "thread"
    PROCESS = "process"


class WorkerSettings(ServiceSettings):
    """What both workers have: callers, a model and room for KV state."""

    allowed_callers: str = Field(
        "",
        description="Names in the certificates of those who may call: DNS names and URIs, parted "
        "by commas. *: any that tls_ca has signed. Needed with tls_ca.",
        json_schema_extra={"allowed": CALLERS_ALLOWED},
    )
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
    pin_cores: str = Field(
        "",
        description="Cores that the model's threads stay on, such as 0-3,6. Empty: any.",
        json_schema_extra={"allowed": CORES_ALLOWED},
    )
    compile: bool = Field(
        False,
        description="Compile the model at the start, which takes minutes and a C++ compiler.",
    )
    engine: EngineChoice = Field(
        EngineChoice.THREAD,
        description="Where the model runs: on a thread of the service, or in a process of its own.",
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
    kv_memory: str = Field(
        "auto",
        description="Memory for KV state: a share of what the weights leave of the device's, or "
        "bytes. auto: 0.25 on a CPU, else 0.85, and no more than 64 full contexts need.",
        json_schema_extra={"allowed": MEMORY_ALLOWED},
    )
    kv_block_size: int = Field(
        16,
        description="Token ids in one block of KV state: what prompts share, and what is evicted.",
        json_schema_extra={"allowed": "one of " + ", ".join(map(str, KV_BLOCK_SIZES))},
    )
    token_budget: int = Field(
        2048,
        ge=128,
        le=1_048_576,
        description="Most token ids that one forward reads, of all generations together.",
    )
    prefill_slice: int = Field(
        0,
        ge=0,
        le=1_048_576,
        description="Most ids of one prompt in a forward that other generations share. "
        "0: as many as measured times allow without holding those up.",
    )
    gather: bool = Field(
        True,
        description="Wait a part of a step for generations that were just answered to come back.",
    )
    admission_queue: int = Field(
        256,
        ge=0,
        le=100_000,
        description="Most rounds that wait for KV state to become free; more are refused.",
    )
    admission_wait_s: float = Field(
        10.0,
        ge=0,
        le=3600,
        description="Seconds that a round waits for KV state before it is refused.",
    )
    lease_s: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="Seconds that state outlives a broken stream, or stays pinned by a silent one.",
    )

    hang_s: float = Field(
        600.0,
        gt=0,
        le=86_400,
        description="Seconds after which a forward that does not end is taken to hang: health says "
        "NOT_SERVING then, and open streams end.",
    )

    @field_validator("tls_ca")
    @classmethod
    def _callers_are_checked_with_tls(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if path is not None and not info.data.get("tls_cert", True):
            raise ValueError("set together with OUTRIDER_TLS_CERT and OUTRIDER_TLS_KEY")
        return path

    @field_validator("allowed_callers")
    @classmethod
    def _callers_are_named(cls, names: str, info: ValidationInfo) -> str:
        if "tls_ca" in info.data and bool(names) != bool(info.data["tls_ca"]):
            raise ValueError(f"set together with OUTRIDER_TLS_CA: {CALLERS_ALLOWED}")
        return check_callers(names)

    @field_validator("listen")
    @classmethod
    def _strangers_stay_out(cls, address: str, info: ValidationInfo) -> str:
        open_to_all = not info.data.get("insecure", True) and not info.data.get("tls_ca", True)
        if open_to_all and not is_loopback(address):
            raise ValueError(
                "a loopback address, unless OUTRIDER_TLS_CA names who signs its callers' "
                "certificates or OUTRIDER_INSECURE=true"
            )
        return address

    @field_validator("pin_cores")
    @classmethod
    def _cores_are_numbers(cls, text: str) -> str:
        parse_cores(text)
        return text

    @field_validator("kv_memory")
    @classmethod
    def _memory_is_an_amount(cls, text: str) -> str:
        MemoryBudget.parse(text)
        return text

    @field_validator("kv_block_size")
    @classmethod
    def _block_size_is_known(cls, size: int) -> int:
        if size not in KV_BLOCK_SIZES:
            raise ValueError("one of " + ", ".join(map(str, KV_BLOCK_SIZES)))
        return size

    @field_validator("cache_dir")
    @classmethod
    def _expand_home(cls, path: Path) -> Path:
        return path.expanduser()

    @property
    def caller_names(self) -> list[str]:
        """`allowed_callers` as a list."""
        return split_callers(self.allowed_callers)

    @property
    def model_cores(self) -> frozenset[int]:
        """`pin_cores` as numbers."""
        return parse_cores(self.pin_cores)

    @property
    def model_threads(self) -> int:
        """`threads`, or one for each core that is pinned; 0 leaves the choice to torch."""
        return self.threads or len(self.model_cores)

    @property
    def kv_budget(self) -> MemoryBudget:
        """`kv_memory` as a value."""
        return MemoryBudget.parse(self.kv_memory)

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
    drafter: Drafter = Field(
        Drafter.MIXED,
        description="Where tokens come from: drawn by the model, copied from where the last ids "
        "came before, from the longest end of the text that came before, or the likelier at each "
        "place. Only model and mixed load the weights.",
    )
    copy_recent: int = Field(
        32_768,
        ge=0,
        le=10_000_000,
        description="Most tokens of recent outputs of one cache scope that other generations copy "
        "from. 0: each generation copies from itself alone.",
    )
    draft_candidates: int = Field(
        40, ge=1, le=256, description="Most candidates that a draft token is drawn from."
    )
    draft_candidate_mass: float = Field(
        0.95, gt=0, le=1, description="Fewer candidates once they have this probability together."
    )

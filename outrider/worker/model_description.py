"""What a worker says about its model."""

from __future__ import annotations

from dataclasses import dataclass, field

from outrider import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, __version__
from outrider.tokenizer_files import TokenizerFiles
from outrider.v1 import model_pb2


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What GetModel tells, and the size of the weights; constant for the life of the process.

    What the loader of a model cannot know of its worker has defaults.
    """

    weights_digest: str
    vocabulary_size: int
    context_length: int
    dtype: str
    device: str
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    tokenizer: TokenizerFiles = field(default_factory=TokenizerFiles)
    weights_bytes: int = 0
    name: str = ""
    role: model_pb2.WorkerRole.ValueType = model_pb2.WORKER_ROLE_UNSPECIFIED
    replica_id: str = ""
    max_draft_length: int = 0
    features: tuple[str, ...] = ()
    drafter: str = ""

    def to_message(self) -> model_pb2.GetModelResponse:
        """The contract's form."""
        return model_pb2.GetModelResponse(
            name=self.name,
            role=self.role,
            protocol_version=OLDEST_PROTOCOL_VERSION,
            newest_protocol_version=PROTOCOL_VERSION,
            features=sorted(self.features),
            weights_digest=self.weights_digest,
            vocabulary_size=self.vocabulary_size,
            tokenizer_digest=self.tokenizer.digest,
            eos_token_ids=self.eos_token_ids,
            bos_token_id=self.bos_token_id,
            context_length=self.context_length,
            max_draft_length=self.max_draft_length,
            replica_id=self.replica_id,
            build_version=__version__,
            dtype=self.dtype,
            device=self.device,
            drafter=self.drafter,
        )

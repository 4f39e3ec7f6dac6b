"""Puts a draft that `outrider distill` made for the embedded target into the package.

`python -m benchmarks.pack_draft FOLDER` writes outrider/engine/data/smollm2-draft: the taught
weights and the vocabulary in bfloat16, the configuration and the card. The embedding, which is the
head too, is the target's own and is not kept.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors import torch as safetensors

from outrider.engine.draft_vocabulary import NAME, read_draft_vocabulary
from outrider.engine.embedded import CONFIG_FILE, DATA, EMBEDDING, LAYERS_FILE

MOST_BYTES = 40_000_000
CARD = "README.md"


def pack(draft: Path) -> int:
    """Writes the package's files; how many bytes they are. Raises ValueError where it is no such
    draft, or too large."""
    config = json.loads((draft / "config.json").read_text())
    token_ids = read_draft_vocabulary(draft, vocabulary_size=config["vocab_size"])
    if token_ids is None:
        raise ValueError(f"{draft}: has no draft vocabulary")
    tensors = safetensors.load_file(draft / "model.safetensors")
    tensors = {
        name: tensor.to(torch.bfloat16).contiguous()
        for name, tensor in tensors.items()
        if name not in (EMBEDDING, "lm_head.weight")
    }
    tensors[NAME] = token_ids.to(torch.int32)
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > MOST_BYTES:
        raise ValueError(f"{draft}: {size} bytes, and at most {MOST_BYTES} are kept")
    safetensors.save_file(tensors, LAYERS_FILE, metadata={"format": "pt"})
    CONFIG_FILE.write_text(json.dumps(config, indent=2) + "\n")
    shutil.copyfile(draft / CARD, DATA / CARD)
    return size


if __name__ == "__main__":
    print(f"{pack(Path(sys.argv[1]))} bytes in {DATA}")

"""A byte-level tokenizer small enough for tiny models, the same on every machine."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL_TOKENS = ("<unk>", "<s>", "</s>")
BOS_TOKEN_ID = 1
EOS_TOKEN_ID = 2
# Whole words as one token each; "Ġ" is the space before them.
WORDS = ("Ġthe", "Ġand", "Ġto", "ing", "Ġof", "er", "Ġa", "Ġin", "tion", "Ġis")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)


def tiny_tokenizer() -> Tokenizer:
    """Byte-level BPE: three special tokens, 256 bytes, a few merges. It adds no BOS."""
    tokens = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges: list[tuple[str, str]] = []
    for word in WORDS:
        for end in range(1, len(word)):
            merge = (word[:end], word[end])
            if merge not in merges:
                merges.append(merge)
                tokens.append(word[: end + 1])
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return tokenizer


def save_tiny_tokenizer(folder: Path) -> int:
    """Writes the tokenizer's files into a model folder; how many ids there are."""
    tokenizer = tiny_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    unk_token, bos_token, eos_token = SPECIAL_TOKENS
    config = {"unk_token": unk_token, "bos_token": bos_token, "eos_token": eos_token}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return int(tokenizer.get_vocab_size())

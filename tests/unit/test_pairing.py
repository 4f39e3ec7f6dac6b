"""A draft is used only where its ids mean the target's tokens (FAULTS H1 to H3)."""

from __future__ import annotations

import json

import pytest

from coordinator.pairing import PairingError, check_pair, spoken_version
from coordinator.text.tokenizer import TargetTokenizer
from outrider import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION
from outrider.testing.small_tokenizers import byte_level_tokenizer, tokenizer_files
from outrider.tokenizer_files import TOKENIZER_FILE, TokenizerFiles
from outrider.v1 import model_pb2

PLAIN = tokenizer_files(byte_level_tokenizer())
LONGER = tokenizer_files(byte_level_tokenizer(["<extra>", "<more>"]))
SIZE = byte_level_tokenizer().get_vocab_size()
NONE = TokenizerFiles()


def renamed(files: TokenizerFiles, **tokens: str) -> TokenizerFiles:
    """The same tokenizer with other names for some tokens, the merges of no further use."""
    content = json.loads(files.files[TOKENIZER_FILE])
    content["model"]["merges"] = []
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = {tokens.get(name, name): i for name, i in vocabulary.items()}
    return TokenizerFiles({**files.files, TOKENIZER_FILE: json.dumps(content).encode()})


def described(
    role: model_pb2.WorkerRole.ValueType, files: TokenizerFiles, vocabulary_size: int
) -> model_pb2.GetModelResponse:
    return model_pb2.GetModelResponse(
        name="m",
        role=role,
        protocol_version=OLDEST_PROTOCOL_VERSION,
        newest_protocol_version=PROTOCOL_VERSION,
        vocabulary_size=vocabulary_size,
        tokenizer_digest=files.digest,
    )


def pair(
    target: TokenizerFiles, draft: TokenizerFiles, *, target_size: int = 0, draft_size: int = 0
) -> None:
    check_pair(
        described(model_pb2.WORKER_ROLE_TARGET, target, target_size or SIZE),
        described(model_pb2.WORKER_ROLE_DRAFT, draft, draft_size or SIZE),
        TargetTokenizer.from_files(target) if target else None,
        TargetTokenizer.from_files(draft) if draft else None,
    )


@pytest.mark.parametrize(("target_size", "draft_size"), [(SIZE, SIZE - 4), (SIZE - 4, SIZE)])
@pytest.mark.parametrize("files", [PLAIN, NONE])
def test_a_padded_vocabulary_pairs(
    files: TokenizerFiles, target_size: int, draft_size: int
) -> None:
    pair(files, files, target_size=target_size, draft_size=draft_size)


def test_equal_digests_need_no_files() -> None:
    check_pair(
        described(model_pb2.WORKER_ROLE_TARGET, PLAIN, SIZE),
        described(model_pb2.WORKER_ROLE_DRAFT, PLAIN, SIZE),
        TargetTokenizer.from_files(PLAIN),
        None,
    )


@pytest.mark.parametrize(("target", "draft"), [(PLAIN, LONGER), (LONGER, PLAIN)])
def test_extra_tokens_behind_the_common_range_pair(
    target: TokenizerFiles, draft: TokenizerFiles
) -> None:
    pair(target, draft, target_size=SIZE + 2, draft_size=SIZE + 2)


def test_another_chat_template_alone_pairs() -> None:
    pair(PLAIN, tokenizer_files(byte_level_tokenizer(), chat_template="{{ messages }}"))


def test_swapped_tokens_are_refused_naming_the_first() -> None:
    swapped = renamed(PLAIN, a="b", b="a")
    first = TargetTokenizer.from_files(PLAIN)
    place = next(i for i in range(SIZE) if first.token(i) == "a")
    with pytest.raises(PairingError) as caught:
        pair(PLAIN, swapped)
    assert str(caught.value) == f"token id {place} is 'a' at the target and 'b' at the draft"


def test_a_difference_behind_the_draft_vocabulary_pairs() -> None:
    other = renamed(PLAIN, Ġis="Ġwas")
    place = byte_level_tokenizer().token_to_id("Ġis")
    pair(PLAIN, other, draft_size=place)
    with pytest.raises(PairingError, match=f"token id {place} "):
        pair(PLAIN, other, draft_size=place + 1)


@pytest.mark.parametrize("gap_at_target", [True, False])
def test_an_id_that_stands_for_nothing_on_one_side_pairs(gap_at_target: bool) -> None:
    content = json.loads(PLAIN.files[TOKENIZER_FILE])
    content["model"]["merges"] = []
    place = content["model"]["vocab"].pop("~")
    gap = TokenizerFiles({**PLAIN.files, TOKENIZER_FILE: json.dumps(content).encode()})
    assert TargetTokenizer.from_files(gap).token(place) is None
    assert TargetTokenizer.from_files(gap).vocabulary_size == SIZE
    pair(*((gap, PLAIN) if gap_at_target else (PLAIN, gap)))


@pytest.mark.parametrize(
    ("target", "draft", "missing"), [(NONE, PLAIN, "target"), (PLAIN, NONE, "draft")]
)
def test_a_tokenizer_on_one_side_only_is_refused(
    target: TokenizerFiles, draft: TokenizerFiles, missing: str
) -> None:
    with pytest.raises(PairingError, match=f"the {missing} serves no tokenizer"):
        pair(target, draft)


def test_nothing_in_common_is_refused() -> None:
    target = described(model_pb2.WORKER_ROLE_TARGET, PLAIN, 0)
    draft = described(model_pb2.WORKER_ROLE_DRAFT, LONGER, SIZE)
    with pytest.raises(PairingError, match="no id in common"):
        check_pair(
            target, draft, TargetTokenizer.from_files(PLAIN), TargetTokenizer.from_files(LONGER)
        )


@pytest.mark.parametrize(
    ("target_role", "draft_role", "reason"),
    [
        (2, 2, "served as target, not as draft"),
        (1, 1, "served as draft, not as target"),
        (2, 0, "served as unspecified, not as draft"),
        (2, 77, "served as 77, not as draft"),
    ],
)
def test_the_wrong_service_is_refused(
    target_role: model_pb2.WorkerRole.ValueType,
    draft_role: model_pb2.WorkerRole.ValueType,
    reason: str,
) -> None:
    target, draft = (described(role, NONE, SIZE) for role in (target_role, draft_role))
    with pytest.raises(PairingError, match=reason):
        check_pair(target, draft, None, None)


@pytest.mark.parametrize("side", ["target", "draft"])
def test_another_protocol_version_is_refused(side: str) -> None:
    models = {
        "target": described(model_pb2.WORKER_ROLE_TARGET, NONE, SIZE),
        "draft": described(model_pb2.WORKER_ROLE_DRAFT, NONE, SIZE),
    }
    models[side].protocol_version = PROTOCOL_VERSION + 1
    models[side].newest_protocol_version = PROTOCOL_VERSION + 2
    with pytest.raises(PairingError, match=f"the {side} speaks protocol version 3 to 4, not 1 to"):
        check_pair(models["target"], models["draft"], None, None)


@pytest.mark.parametrize(
    ("oldest", "newest", "spoken"), [(1, 0, 1), (2, 0, 2), (1, 2, 2), (1, 9, 2), (2, 3, 2)]
)
def test_the_newest_version_that_both_speak_is_spoken(
    oldest: int, newest: int, spoken: int
) -> None:
    model = model_pb2.GetModelResponse(protocol_version=oldest, newest_protocol_version=newest)
    assert spoken_version(model) == spoken


@pytest.mark.parametrize(("oldest", "newest"), [(0, 0), (3, 0), (3, 3), (3, 4)])
def test_a_worker_without_a_common_version_is_refused(oldest: int, newest: int) -> None:
    model = model_pb2.GetModelResponse(
        role=model_pb2.WORKER_ROLE_TARGET,
        protocol_version=oldest,
        newest_protocol_version=newest,
    )
    with pytest.raises(PairingError, match=rf"the target speaks .*{oldest}.*, not 1 to 2"):
        spoken_version(model)

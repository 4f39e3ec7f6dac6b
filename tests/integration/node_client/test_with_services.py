"""The Node client and the three real services: it gets what any other client gets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from outrider.testing.cluster import Cluster, WorkerPlan, running_cluster
from outrider.testing.scripted import TableModel, random_table
from outrider.tokenizer_files import CHAT_TEMPLATE_FILE, TOKENIZER_FILE, TokenizerFiles
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.node_client.process import NodeClient

WORDS = ("ab", "Grüße", "世界", "de", "fgh", "i", "jk", "l")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A pair of scripted models with a vocabulary of eight words."""
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="ab"))
    tokenizer.pre_tokenizer = Whitespace()
    files = TokenizerFiles(
        {
            TOKENIZER_FILE: tokenizer.to_str().encode(),
            CHAT_TEMPLATE_FILE: b"de {{ messages[0].content }} l",
        }
    )
    plans = [WorkerPlan(TableModel(random_table(seed=seed)), tokenizer=files) for seed in (1, 2)]
    async with running_cluster(*plans) as running:
        yield running


@pytest.mark.parametrize("flags", [["--raw"], []], ids=["text", "chat"])
async def test_it_prints_what_another_client_gets(
    cluster: Cluster, node: NodeClient, flags: list[str]
) -> None:
    prompt = "fgh i 世界"
    chat = generation_pb2.ChatPrompt(
        messages=[generation_pb2.ChatMessage(role="CHAT_ROLE_USER", content=prompt)]
    )
    other = await cluster.generate(
        generation_pb2.GenerateRequest(
            **({"text": prompt} if flags else {"chat": chat}),
            max_new_tokens=40,
            sampling=common_pb2.SamplingParams(temperature=0.7, seed=2**63 + 1),
        )
    )

    code, output, errors = await node.run(
        *("--address", cluster.coordinator.rpc.address),
        *("--max-new-tokens", "40", "--temperature", "0.7", "--seed", str(2**63 + 1)),
        *flags,
        prompt,
    )

    assert (code, output) == (0, other.text)
    assert len(set(output.split()) & set(WORDS)) > 1
    assert f"{other.summary.usage.prompt_tokens} in, 40 out" in errors
    # How many there are is up to clocks; what they lead to is not.
    assert "draft tokens " in errors
    assert f"seed {2**63 + 1}" in errors


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        (["--temperature=-1"], "sampling.temperature"),
        (["--max-new-tokens", "0"], "max_new_tokens"),
    ],
)
async def test_it_names_the_wrong_field_and_what_is_allowed(
    cluster: Cluster, node: NodeClient, flags: list[str], field: str
) -> None:
    address = cluster.coordinator.rpc.address

    code, output, errors = await node.run("--address", address, *flags, "i")

    assert (code, output) == (1, "")
    assert "INVALID_ARGUMENT" in errors
    assert "INVALID_FIELD (outrider)" in errors
    assert f"field: {field}" in errors
    assert "allowed: " in errors

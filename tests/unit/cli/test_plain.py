"""Messages as plain values."""

from __future__ import annotations

from outrider.cli.plain import enum_word, plain
from outrider.v1 import generation_pb2, model_pb2


def test_every_field_is_there_and_unset_ones_are_none() -> None:
    values = plain(model_pb2.GetModelResponse(name="m", features=["b"]))
    assert set(values) == {field.name for field in model_pb2.GetModelResponse.DESCRIPTOR.fields}
    assert values["name"] == "m"
    assert values["features"] == ["b"]
    assert values["bos_token_id"] is None
    assert values["context_length"] == 0


def test_enums_become_short_words() -> None:
    reasons = generation_pb2.FinishReason.DESCRIPTOR
    assert enum_word(reasons, generation_pb2.FINISH_REASON_STOP) == "stop"
    assert enum_word(model_pb2.WorkerRole.DESCRIPTOR, model_pb2.WORKER_ROLE_DRAFT) == "draft"


def test_an_unknown_enum_value_keeps_its_number() -> None:
    assert enum_word(generation_pb2.FinishReason.DESCRIPTOR, 77) == "77"


def test_messages_in_lists_become_dicts() -> None:
    state = generation_pb2.GenerationServiceGetStatusResponse(
        targets=[generation_pb2.WorkerStatus(address="a")]
    )
    assert plain(state)["targets"][0]["address"] == "a"
    assert plain(state)["targets"][0]["model"] is None
    assert plain(state)["speculation"] is None

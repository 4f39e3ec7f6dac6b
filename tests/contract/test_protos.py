"""The contract: lint rules, stubs that fit the files, and rules that no linter knows."""

from __future__ import annotations

import importlib
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

from outrider.v1 import common_pb2

ROOT = Path(__file__).parents[2]
PROTOS = ROOT / "protos"
STUBS = ROOT / "outrider" / "v1"
BUF = Path(sys.executable).parent / "buf"
NAMES = sorted(path.stem for path in (PROTOS / "outrider" / "v1").glob("*.proto"))


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """`buf lint` with the repository's configuration; every fault is a line of its output."""
    command = [str(BUF), "lint", "--error-format", "json", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def copied_protos(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROTOS, tmp_path / "protos"))


def test_the_linter_has_nothing_to_say() -> None:
    done = lint(PROTOS)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("name", "sound", "broken", "rule"),
    [
        ("common", "  // The proposed token. 0 to vocabulary size − 1.\n", "", "COMMENT_FIELD"),
        ("target", "  // The decision.\n", "", "COMMENT_FIELD"),
        ("draft", "// Proposes draft tokens for generations.\n", "", "COMMENT_SERVICE"),
        ("common", "VERIFICATION_REJECTION", "REJECTION", "ENUM_VALUE_PREFIX"),
        ("target", "rpc Verify(stream VerifyRequest)", "rpc Verify(stream Verdict)", "RPC_REQUEST"),
    ],
)
def test_the_linter_finds_a_planted_fault(
    copied_protos: Path, name: str, sound: str, broken: str, rule: str
) -> None:
    path = copied_protos / "outrider" / "v1" / f"{name}.proto"
    text = path.read_text()
    assert sound in text
    path.write_text(text.replace(sound, broken))

    done = lint(copied_protos)

    assert done.returncode != 0
    assert f'"type":"{rule}' in done.stdout


def test_stubs_fit_the_files(copied_protos: Path) -> None:
    """What is imported is what the build makes of the files now."""
    fresh = copied_protos.parent
    generate_stubs = runpy.run_path(str(ROOT / "hatch_build.py"))["generate_stubs"]
    generate_stubs(fresh)

    made = {path.name: path.read_text() for path in (fresh / "outrider" / "v1").glob("*.py*")}
    found = {path.name: path.read_text() for path in STUBS.glob("*.py*")}
    stale = sorted(name for name in made if found.get(name) != made[name])

    assert {f"{name}_pb2.py" for name in NAMES} <= made.keys()
    assert stale == [], "run `make stubs`"
    assert sorted(found.keys() - made.keys()) == []


def test_field_numbers_are_gapless() -> None:
    """A first version has no holes; later ones reserve what they take away."""
    for message in messages():
        reserved = {n for low, high in _reserved(message) for n in range(low, high)}
        numbers = {field.number for field in message.fields} | reserved
        assert numbers == set(range(1, len(numbers) + 1)), message.full_name


def test_sampling_can_tell_unset_from_zero() -> None:
    """Every number of SamplingParams has presence: an unset top_p is not 0."""
    numbers = [
        field
        for field in common_pb2.SamplingParams.DESCRIPTOR.fields
        if not field.is_repeated
        and field.cpp_type in {field.CPPTYPE_FLOAT, field.CPPTYPE_UINT32, field.CPPTYPE_UINT64}
    ]

    assert len(numbers) >= 8
    assert [field.name for field in numbers if not field.has_presence] == []


def test_every_round_carries_trace_context() -> None:
    rounds = [message for message in messages() if message.name.endswith("Round")]

    assert len(rounds) == 2
    for message in rounds:
        assert message.fields_by_name["trace"].message_type.name == "TraceContext"


def files() -> Iterator[FileDescriptor]:
    for name in NAMES:
        yield importlib.import_module(f"outrider.v1.{name}_pb2").DESCRIPTOR


def messages() -> Iterator[Descriptor]:
    """Every message of the contract but the entries of maps."""
    for file in files():
        yield from file.message_types_by_name.values()


def _reserved(message: Descriptor) -> list[tuple[int, int]]:
    proto = DescriptorProto()
    message.CopyToProto(proto)
    return [(item.start, item.end) for item in proto.reserved_range]

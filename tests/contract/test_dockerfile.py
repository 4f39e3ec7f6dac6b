"""The Dockerfile, read without an engine: stages, users, commands, what is copied and pinned."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from outrider.settings import CoordinatorSettings, DraftSettings, TargetSettings

ROOT = Path(__file__).parents[2]
IMAGES = {"coordinator": CoordinatorSettings, "draft": DraftSettings, "target": TargetSettings}
WORKER_PACKAGES = re.compile(r"\[worker\]|torch|transformers")


@dataclass
class Stage:
    """One FROM with the instructions after it, and the stage it builds on."""

    image: str
    name: str
    parent: Stage | None
    own: list[tuple[str, str]] = field(default_factory=list)

    def values(self, instruction: str) -> list[str]:
        """Arguments of an instruction, those of the stages below first."""
        below = self.parent.values(instruction) if self.parent else []
        return [*below, *(value for name, value in self.own if name == instruction)]


def stages(text: str) -> dict[str, Stage]:
    """Stages by name."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    found: dict[str, Stage] = {}
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        instruction, _, value = line.partition(" ")
        if instruction == "FROM":
            image, _, name = value.partition(" AS ")
            current = found[name] = Stage(image, name, found.get(image))
        else:
            current.own.append((instruction, value.strip()))
    return found


def images_are_pinned(text: str) -> Iterator[str]:
    """Base images have a full version, and there is one of them."""
    bases = {stage.image for stage in stages(text).values() if stage.parent is None}
    if len(bases) != 1:
        yield f"base images: {sorted(bases)}"
    yield from (base for base in bases if not re.search(r":\d+\.\d+\.\d+", base))


def every_service_has_an_image(text: str) -> Iterator[str]:
    """Each target runs its service, as a numbered user, on its usual port."""
    found = stages(text)
    for role, settings in IMAGES.items():
        stage = found[role]
        commands = [json.loads(value) for value in stage.values("ENTRYPOINT")]
        if commands != [["outrider", "serve", role]]:
            yield f"{role} runs {commands}"
        if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", (stage.values("USER") or [""])[-1]):
            yield f"{role} has users {stage.values('USER')}"
        port = str(settings.model_fields["listen"].default).rpartition(":")[2]
        if stage.values("EXPOSE") != [port]:
            yield f"{role} exposes {stage.values('EXPOSE')}"
        variables = {pair.partition("=")[0] for env in stage.values("ENV") for pair in env.split()}
        yield from (f"{role} has no {name}" for name in ("HOME", "USER") if name not in variables)


def the_coordinator_has_no_torch(text: str) -> Iterator[str]:
    """Only workers install what loads models."""
    found = stages(text)
    yield from filter(WORKER_PACKAGES.search, found["coordinator"].values("RUN"))
    for role in ("draft", "target"):
        if not any(WORKER_PACKAGES.search(command) for command in found[role].values("RUN")):
            yield f"{role} cannot load a model"


def installs_are_constrained(text: str) -> Iterator[str]:
    """Every install takes the tested versions."""
    for stage in stages(text).values():
        for name, value in stage.own:
            installs = value.count("pip install") if name == "RUN" else 0
            if installs != value.count("--constraint /constraints.txt"):
                yield f"{stage.name}: {value}"


def copied_files_reach_the_builder(text: str) -> Iterator[str]:
    """What is copied or mounted from the source exists and is not ignored."""
    allowed = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    for stage in stages(text).values():
        copied = [path for value in stage.values("COPY") for path in value.split()[:-1]]
        mounted = re.findall(r"--mount=type=bind,source=([^,\s]+)", " ".join(stage.values("RUN")))
        for path in (*copied, *mounted):
            if not (ROOT / path).exists():
                yield f"{stage.name}: {path} does not exist"
            if not any(fnmatch.fnmatch(path, pattern) for pattern in allowed):
                yield f"{stage.name}: {path} is ignored"


POLICIES = (
    images_are_pinned,
    every_service_has_an_image,
    the_coordinator_has_no_torch,
    installs_are_constrained,
    copied_files_reach_the_builder,
)
FAULTS: list[tuple[Callable[[str], Iterator[str]], str, str]] = [
    (images_are_pinned, r"python:\S+", "python:latest"),
    (images_are_pinned, r"python:\S+ AS base", "python:3.12.1 AS base"),
    (every_service_has_an_image, '"serve", "draft"', '"serve", "target"'),
    (every_service_has_an_image, "USER 10001:10001", "USER outrider"),
    (every_service_has_an_image, "USER 10001:10001", ""),
    (every_service_has_an_image, "EXPOSE 7411", "EXPOSE 7421"),
    (every_service_has_an_image, "HOME=/home/outrider", "HOMES=/home/outrider"),
    (the_coordinator_has_no_torch, r"outrider-\*.whl\n", "outrider-*.whl torch\n"),
    (the_coordinator_has_no_torch, r"\[worker\]", ""),
    (
        installs_are_constrained,
        "pip install --no-cache-dir --constraint /constraints.txt",
        "pip install",
    ),
    (copied_files_reach_the_builder, "COPY protos protos", "COPY tests tests"),
    (copied_files_reach_the_builder, "source=constraints.txt", "source=versions.txt"),
]


@pytest.mark.parametrize("policy", POLICIES)
def test_policy_holds(policy: Callable[[str], Iterator[str]]) -> None:
    assert list(policy((ROOT / "Dockerfile").read_text())) == []


@pytest.mark.parametrize(("policy", "pattern", "replacement"), FAULTS)
def test_policy_finds_a_planted_fault(
    policy: Callable[[str], Iterator[str]], pattern: str, replacement: str
) -> None:
    sound = (ROOT / "Dockerfile").read_text()
    broken = re.sub(pattern, replacement, sound)

    assert broken != sound
    assert list(policy(broken))


def test_every_policy_has_a_planted_fault() -> None:
    assert {policy for policy, _, _ in FAULTS} == set(POLICIES)

"""Rendered manifests, and the views of them that the policies need."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]

BINARIES = Path(sys.executable).parent
ROLES = ("coordinator", "target", "draft")
COMPONENT = "app.kubernetes.io/component"


@dataclass(frozen=True)
class Workload:
    """One Deployment with its pod template and only container."""

    deployment: Document

    @property
    def name(self) -> str:
        return str(self.deployment["metadata"]["name"])

    @property
    def role(self) -> str:
        """`coordinator`, `target` or `draft`."""
        return self.labels.get(COMPONENT, "")

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the pods."""
        return dict(self.deployment["spec"]["template"]["metadata"].get("labels", {}))

    @property
    def pod(self) -> Document:
        pod: Document = self.deployment["spec"]["template"]["spec"]
        return pod

    @property
    def container(self) -> Document:
        [container] = self.pod["containers"]
        return dict(container)

    @property
    def port(self) -> int:
        """The only port."""
        [port] = self.container["ports"]
        return int(port["containerPort"])


@dataclass(frozen=True)
class Manifests:
    """All objects of one rendered folder."""

    documents: tuple[Document, ...]

    @classmethod
    def render(cls, folder: Path) -> Manifests:
        """What `kubectl kustomize` makes of a folder."""
        command = [str(BINARIES / "kubectl"), "kustomize", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            raise AssertionError(f"{folder} does not render: {done.stderr}")
        return cls(tuple(yaml.safe_load_all(done.stdout)))

    def of_kind(self, kind: str) -> list[Document]:
        return [document for document in self.documents if document["kind"] == kind]

    def find(self, kind: str, name: str) -> Document:
        """The object of that name; generated ones have a hash behind it."""
        [found] = [
            document
            for document in self.of_kind(kind)
            if document["metadata"]["name"].startswith(name)
        ]
        return found

    @property
    def workloads(self) -> list[Workload]:
        return [Workload(document) for document in self.of_kind("Deployment")]

    def workload(self, role: str) -> Workload:
        [found] = [workload for workload in self.workloads if workload.role == role]
        return found

    def environment(self, workload: Workload) -> dict[str, str | None]:
        """Variables of the container. None: known only once the pod runs."""
        variables: dict[str, str | None] = {}
        for source in workload.container.get("envFrom", ()):
            variables |= self.find("ConfigMap", source["configMapRef"]["name"])["data"]
        for entry in workload.container.get("env", ()):
            variables[entry["name"]] = entry.get("value")
        return variables

    def copy(self) -> Manifests:
        """A copy that may be changed."""
        return Manifests(copy.deepcopy(self.documents))


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector fits; an empty one fits all. Only matchLabels is understood."""
    if selector.keys() - {"matchLabels"}:
        raise AssertionError(f"not understood in a selector: {selector}")
    wanted: Mapping[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()

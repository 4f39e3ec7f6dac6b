"""Policies on what a pod may do and use: one line for every fault, none when all is well."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from tests.contract.kubernetes.objects import ROLES, Manifests, Workload

GPU = "nvidia.com/gpu"
GPU_PRODUCT = "nvidia.com/gpu.product"
VERSION = metadata.version("outrider")


def roles_are_complete(manifests: Manifests) -> Iterator[str]:
    """One Deployment for each service, one container in each."""
    if sorted(work.role for work in manifests.workloads) != sorted(ROLES):
        yield f"Deployments: {[work.name for work in manifests.workloads]}"


def no_namespace_is_named(manifests: Manifests) -> Iterator[str]:
    """Whoever deploys chooses the namespace."""
    for item in manifests.documents:
        if "namespace" in item["metadata"]:
            yield f"{item['kind']} {item['metadata']['name']} names a namespace"


def images_are_pinned(manifests: Manifests) -> Iterator[str]:
    """Each image is that of the role, in the version of this source."""
    for work in manifests.workloads:
        repository, _, tag = work.container["image"].rpartition(":")
        if not repository.endswith(f"outrider-{work.role}") or tag != VERSION:
            yield f"{work.name} runs {work.container['image']}, version {VERSION} is here"


def resources_are_bounded(manifests: Manifests) -> Iterator[str]:
    """Processor and memory have requests and limits."""
    for work in manifests.workloads:
        for bound in ("requests", "limits"):
            given = work.container.get("resources", {}).get(bound, {})
            for missing in sorted({"cpu", "memory"} - given.keys()):
                yield f"{work.name} has no {missing} in {bound}"


def pods_are_restricted(manifests: Manifests) -> Iterator[str]:
    """Pod security `restricted`, and a read-only root for the coordinator."""
    for work in manifests.workloads:
        pod, container = work.pod.get("securityContext", {}), work.container["securityContext"]
        rules = {
            "runs as a numbered user": pod.get("runAsUser", 0) > 0,
            "may not be root": pod.get("runAsNonRoot") is True,
            "has the default seccomp profile": pod.get("seccompProfile")
            == {"type": "RuntimeDefault"},
            "cannot gain privileges": container.get("allowPrivilegeEscalation") is False,
            "has no capabilities": container.get("capabilities") == {"drop": ["ALL"]},
            # GPU runtimes write into the root of a worker.
            "has a read-only root": container.get("readOnlyRootFilesystem") is True
            or work.role != "coordinator",
            "shares nothing with its node": not work.pod.keys()
            & {"hostNetwork", "hostPID", "hostIPC"},
        }
        yield from (f"{work.name}: not so: {rule}" for rule, holds in rules.items() if not holds)


def tokens_stay_out(manifests: Manifests) -> Iterator[str]:
    """No pod gets a token of the Kubernetes API, nor variables that look like settings."""
    accounts = {item["metadata"]["name"]: item for item in manifests.of_kind("ServiceAccount")}
    for work in manifests.workloads:
        account = accounts.get(work.pod.get("serviceAccountName", ""), {})
        if account.get("automountServiceAccountToken") is not False:
            yield f"{work.name}: its account mounts a token, or there is none"
        if work.pod.get("automountServiceAccountToken") is not False:
            yield f"{work.name} mounts a token"
        if work.pod.get("enableServiceLinks") is not False:
            yield f"{work.name} gets OUTRIDER_* variables from Services"


def mounts_have_volumes(manifests: Manifests) -> Iterator[str]:
    """Every mount has its volume, every volume its mount, and /tmp can be written."""
    for work in manifests.workloads:
        mounts = {item["name"]: item["mountPath"] for item in work.container["volumeMounts"]}
        volumes = {item["name"]: item for item in work.pod.get("volumes", ())}
        if mounts.keys() != volumes.keys():
            yield f"{work.name} mounts {sorted(mounts)}, has {sorted(volumes)}"
        writable = {mounts.get(name) for name, item in volumes.items() if "emptyDir" in item}
        cache = manifests.environment(work).get("OUTRIDER_CACHE_DIR")
        for path in sorted({"/tmp", *filter(None, [cache])} - writable):
            yield f"{work.name} cannot write to {path}"


def no_gpu_is_asked_for(manifests: Manifests) -> Iterator[str]:
    """The base runs on any node."""
    for work in manifests.workloads:
        if _gpus(work) or "nodeSelector" in work.pod or "tolerations" in work.pod:
            yield f"{work.name} asks for special nodes"


def gpu_pools_are_apart(manifests: Manifests) -> Iterator[str]:
    """Target and draft have GPUs on nodes of their own kind, the coordinator has none."""
    pools: dict[str, str] = {}
    for role in ("target", "draft"):
        work = manifests.workload(role)
        pools[role] = work.pod.get("nodeSelector", {}).get(GPU_PRODUCT, "")
        if not _gpus(work):
            yield f"{work.name} has no GPU"
        if work.container["resources"]["requests"].get(GPU) != _gpus(work):
            yield f"{work.name} requests other GPUs than it is limited to"
        tolerated = {item.get("key") for item in work.pod.get("tolerations", ())}
        if GPU not in tolerated:
            yield f"{work.name} does not tolerate GPU nodes"
        if not str(manifests.environment(work).get("OUTRIDER_DEVICE")).startswith("cuda"):
            yield f"{work.name} does not use its GPU"
    if "" in pools.values() or len(set(pools.values())) < len(pools):
        yield f"the pools are not apart: {pools}"
    coordinator = manifests.workload("coordinator")
    if _gpus(coordinator) or "nodeSelector" in coordinator.pod:
        yield f"{coordinator.name} takes a GPU node"
    if "podAffinity" not in coordinator.pod.get("affinity", {}):
        yield f"{coordinator.name} may be far from the target"


def _gpus(work: Workload) -> str:
    return str(work.container["resources"]["limits"].get(GPU, ""))

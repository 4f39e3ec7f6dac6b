"""Faults to plant in sound manifests: which policy must find it, where, and what is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.contract.kubernetes import safety, wiring
from tests.contract.kubernetes.objects import Manifests

Policy = Callable[[Manifests], Iterator[str]]
Change = Callable[[Any], object]


def pod(document: Any) -> Any:
    return document["spec"]["template"]["spec"]


def container(document: Any) -> Any:
    return pod(document)["containers"][0]


def variable(document: Any, name: str) -> Any:
    [found] = [item for item in container(document)["env"] if item["name"] == name]
    return found


COORDINATOR = ("Deployment", "outrider-coordinator")
TARGET = ("Deployment", "outrider-target")
DRAFT = ("Deployment", "outrider-draft")
PRODUCT = safety.GPU_PRODUCT

FAULTS: list[tuple[Policy, tuple[str, str], Change]] = [
    (safety.images_are_pinned, DRAFT, lambda d: container(d).update(image="outrider-draft:latest")),
    (safety.images_are_pinned, DRAFT, lambda d: container(d).update(image="outrider-draft")),
    (
        safety.images_are_pinned,
        DRAFT,
        lambda d: container(d).update(image=f"outrider-target:{safety.VERSION}"),
    ),
    (safety.mounts_have_volumes, TARGET, lambda d: pod(d)["volumes"].pop()),
    (safety.mounts_have_volumes, TARGET, lambda d: container(d)["volumeMounts"].pop()),
    (
        safety.mounts_have_volumes,
        TARGET,
        lambda d: variable(d, "OUTRIDER_CACHE_DIR").update(value="/var/elsewhere"),
    ),
    (safety.no_namespace_is_named, TARGET, lambda d: d["metadata"].update(namespace="default")),
    (
        safety.pods_are_restricted,
        COORDINATOR,
        lambda d: container(d)["securityContext"].pop("readOnlyRootFilesystem"),
    ),
    (
        safety.pods_are_restricted,
        DRAFT,
        lambda d: container(d)["securityContext"].update(capabilities={"add": ["SYS_PTRACE"]}),
    ),
    (safety.pods_are_restricted, DRAFT, lambda d: pod(d)["securityContext"].update(runAsUser=0)),
    (safety.pods_are_restricted, DRAFT, lambda d: pod(d).update(hostNetwork=True)),
    (
        safety.resources_are_bounded,
        DRAFT,
        lambda d: container(d)["resources"]["limits"].pop("memory"),
    ),
    (safety.roles_are_complete, DRAFT, lambda d: d.update(kind="StatefulSet")),
    (safety.tokens_stay_out, DRAFT, lambda d: pod(d).pop("serviceAccountName")),
    (safety.tokens_stay_out, DRAFT, lambda d: pod(d).pop("enableServiceLinks")),
    (
        safety.tokens_stay_out,
        ("ServiceAccount", "outrider-draft"),
        lambda d: d.pop("automountServiceAccountToken"),
    ),
    (
        safety.no_gpu_is_asked_for,
        TARGET,
        lambda d: container(d)["resources"]["limits"].update({safety.GPU: "1"}),
    ),
    (
        safety.gpu_pools_are_apart,
        DRAFT,
        lambda d: pod(d)["nodeSelector"].update({PRODUCT: "NVIDIA-H100-80GB-HBM3"}),
    ),
    (safety.gpu_pools_are_apart, DRAFT, lambda d: pod(d).pop("nodeSelector")),
    (safety.gpu_pools_are_apart, DRAFT, lambda d: pod(d).pop("tolerations")),
    (
        safety.gpu_pools_are_apart,
        TARGET,
        lambda d: container(d)["resources"]["limits"].pop(safety.GPU),
    ),
    (safety.gpu_pools_are_apart, COORDINATOR, lambda d: pod(d).pop("affinity")),
    (
        safety.gpu_pools_are_apart,
        DRAFT,
        lambda d: variable(d, "OUTRIDER_DEVICE").update(value="cpu"),
    ),
    (
        wiring.addresses_are_services,
        COORDINATOR,
        lambda d: variable(d, "OUTRIDER_DRAFT_ADDRESS").update(value="outrider-draft:7421"),
    ),
    (
        wiring.edges_are_those_of_the_design,
        ("NetworkPolicy", "outrider-target"),
        lambda d: d["spec"].pop("ingress"),
    ),
    (
        wiring.edges_are_those_of_the_design,
        ("NetworkPolicy", "outrider-target"),
        lambda d: d["spec"]["ingress"][0].pop("from"),
    ),
    (
        wiring.edges_are_those_of_the_design,
        ("NetworkPolicy", "outrider-coordinator"),
        lambda d: d["spec"]["egress"].pop(0),
    ),
    (
        wiring.edges_are_those_of_the_design,
        ("NetworkPolicy", "outrider-draft"),
        lambda d: d["spec"]["policyTypes"].remove("Egress"),
    ),
    (
        wiring.grace_outlasts_drain,
        TARGET,
        lambda d: pod(d).update(terminationGracePeriodSeconds=65),
    ),
    (wiring.grace_outlasts_drain, TARGET, lambda d: container(d).pop("lifecycle")),
    (
        wiring.ports_agree,
        ("Service", "outrider-draft"),
        lambda d: d["spec"]["ports"][0].update(port=1),
    ),
    (
        wiring.ports_agree,
        ("Service", "outrider-draft"),
        lambda d: d["spec"]["ports"][0].update(targetPort="http"),
    ),
    (
        wiring.ports_agree,
        DRAFT,
        lambda d: variable(d, "OUTRIDER_LISTEN").update(value="127.0.0.1:7411"),
    ),
    (
        wiring.probes_ask_for_known_names,
        TARGET,
        lambda d: container(d)["readinessProbe"]["grpc"].update(service="outrider.v1.Target"),
    ),
    (
        wiring.probes_ask_for_known_names,
        TARGET,
        lambda d: container(d)["livenessProbe"]["grpc"].update(port=7400),
    ),
    (wiring.probes_ask_for_known_names, TARGET, lambda d: container(d).pop("startupProbe")),
    (
        wiring.selectors_fit_labels,
        ("Service", "outrider-draft"),
        lambda d: d["spec"]["selector"].pop("app.kubernetes.io/component"),
    ),
    (
        wiring.selectors_fit_labels,
        ("PodDisruptionBudget", "outrider-coordinator"),
        lambda d: d["spec"]["selector"]["matchLabels"].update({"app.kubernetes.io/name": "x"}),
    ),
    (
        wiring.settings_are_valid,
        DRAFT,
        lambda d: variable(d, "OUTRIDER_LOG_FORMAT").update(value="xml"),
    ),
    (
        wiring.settings_are_valid,
        DRAFT,
        lambda d: variable(d, "OUTRIDER_INSECURE").update(value="false"),
    ),
    (
        wiring.startup_has_time,
        TARGET,
        lambda d: container(d)["startupProbe"].update(failureThreshold=3),
    ),
    (
        wiring.variables_are_known,
        DRAFT,
        lambda d: variable(d, "OUTRIDER_LISTEN").update(name="OUTRIDER_LISTENER"),
    ),
    (
        wiring.variables_are_known,
        ("ConfigMap", "outrider-telemetry"),
        lambda d: d["data"].update(OTEL_TRACE_EXPORTER="otlp"),
    ),
    (
        wiring.workers_are_headless,
        ("Service", "outrider-target"),
        lambda d: d["spec"].pop("clusterIP"),
    ),
]

"""Policies on what must fit together: one line for every fault, none when all is well."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.settings import (
    CoordinatorSettings,
    DraftSettings,
    ServiceSettings,
    SettingsError,
    TargetSettings,
    environment_names,
    load_settings,
)
from outrider.v1 import draft_pb2, generation_pb2, target_pb2
from tests.contract.kubernetes.network import SERVICE_EDGES, open_edges
from tests.contract.kubernetes.objects import Manifests, Workload, selects

SETTINGS: dict[str, type[ServiceSettings]] = {
    "coordinator": CoordinatorSettings,
    "target": TargetSettings,
    "draft": DraftSettings,
}
HEALTH_NAMES: dict[str, str] = {
    role: descriptor.services_by_name[service].full_name
    for role, descriptor, service in (
        ("coordinator", generation_pb2.DESCRIPTOR, "GenerationService"),
        ("target", target_pb2.DESCRIPTOR, "TargetService"),
        ("draft", draft_pb2.DESCRIPTOR, "DraftService"),
    )
}
OTHER_SOFTWARE = frozenset(
    {
        "HF_HUB_OFFLINE",
        "POD_NAME",
        "POD_NAMESPACE",
        "OTEL_TRACES_EXPORTER",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_TRACES_SAMPLER",
        "OTEL_RESOURCE_ATTRIBUTES",
    }
)
"""Variables that are no settings of ours."""


def selectors_fit_labels(manifests: Manifests) -> Iterator[str]:
    """Every selector fits the pods of exactly one Deployment."""
    selectors = [
        *(
            (item, {"matchLabels": item["spec"]["selector"]})
            for item in manifests.of_kind("Service")
        ),
        *((item, item["spec"]["selector"]) for item in manifests.of_kind("Deployment")),
        *((item, item["spec"]["selector"]) for item in manifests.of_kind("PodDisruptionBudget")),
        *((item, item["spec"]["podSelector"]) for item in manifests.of_kind("NetworkPolicy")),
    ]
    for item, selector in selectors:
        name = item["metadata"]["name"]
        fitting = [work.name for work in manifests.workloads if selects(selector, work.labels)]
        if fitting != [name]:
            yield f"{item['kind']} {name} selects the pods of {fitting}"


def ports_agree(manifests: Manifests) -> Iterator[str]:
    """Service, container and listener of a role name the same port."""
    for work in manifests.workloads:
        [port] = manifests.find("Service", work.name)["spec"]["ports"]
        [container_port] = work.container["ports"]
        if port["targetPort"] not in (container_port["name"], work.port):
            yield f"Service {work.name} leads to {port['targetPort']}"
        if port["port"] != work.port:
            yield f"Service {work.name} has port {port['port']}, its pods {work.port}"
        listen = manifests.environment(work).get("OUTRIDER_LISTEN") or ""
        if listen != f"0.0.0.0:{work.port}":
            yield f"{work.name} listens on {listen!r}"


def addresses_are_services(manifests: Manifests) -> Iterator[str]:
    """Each worker's address in the coordinator's settings is that worker's Service and port."""
    environment = manifests.environment(manifests.workload("coordinator"))
    for role in ("target", "draft"):
        name = f"OUTRIDER_{role.upper()}_ADDRESS"
        wanted = f"{manifests.workload(role).name}:{manifests.workload(role).port}"
        if environment.get(name) != wanted:
            yield f"{name} is {environment.get(name)}, not {wanted}"


def workers_are_headless(manifests: Manifests) -> Iterator[str]:
    """A worker's Service gives the addresses of its pods."""
    for role in ("target", "draft"):
        name = manifests.workload(role).name
        if manifests.find("Service", name)["spec"].get("clusterIP") != "None":
            yield f"Service {name} is not headless"


def probes_ask_for_known_names(manifests: Manifests) -> Iterator[str]:
    """Startup and readiness ask for the role's own service, liveness for the process."""
    for work in manifests.workloads:
        own = HEALTH_NAMES[work.role]
        for probe, service in (("startup", own), ("readiness", own), ("liveness", "")):
            asked = work.container.get(f"{probe}Probe", {}).get("grpc")
            if asked != {"port": work.port, "service": service}:
                yield f"{work.name}: {probe} probe asks {asked}"


def startup_has_time(manifests: Manifests) -> Iterator[str]:
    """A model may take ten minutes to load."""
    for work in manifests.workloads:
        probe = work.container["startupProbe"]
        if probe["periodSeconds"] * probe["failureThreshold"] < 600:
            yield f"{work.name} is given up before ten minutes"


def variables_are_known(manifests: Manifests) -> Iterator[str]:
    """Every variable is a setting of that service, or of the software it uses."""
    for work in manifests.workloads:
        known = environment_names(SETTINGS[work.role]) | OTHER_SOFTWARE
        for name in sorted(manifests.environment(work).keys() - known):
            yield f"{work.name}: {name} is no setting"


def settings_are_valid(manifests: Manifests) -> Iterator[str]:
    """The service would start with these settings."""
    for work in manifests.workloads:
        names = environment_names(SETTINGS[work.role])
        flags = {
            name.removeprefix("OUTRIDER_").lower(): value
            for name, value in manifests.environment(work).items()
            if name in names and value is not None
        }
        try:
            load_settings(SETTINGS[work.role], flags)
        except SettingsError as error:
            yield f"{work.name}: {error}"


def grace_outlasts_drain(manifests: Manifests) -> Iterator[str]:
    """Kubernetes waits longer than preStop and draining take."""
    for work in manifests.workloads:
        needed = _pre_stop_s(work) + float(manifests.environment(work)["OUTRIDER_DRAIN_S"] or 0)
        if _pre_stop_s(work) == 0:
            yield f"{work.name} stops before its peers know"
        if work.pod["terminationGracePeriodSeconds"] <= needed:
            yield f"{work.name} is killed before {needed} s have passed"


def edges_are_those_of_the_design(manifests: Manifests) -> Iterator[str]:
    """NetworkPolicies allow every connection there is, and no other."""
    found = open_edges(manifests)
    for source, destination, port in sorted(SERVICE_EDGES - found):
        yield f"{source} cannot reach {destination}:{port}"
    for source, destination, port in sorted(found - SERVICE_EDGES):
        yield f"{source} may reach {destination}:{port}"


def _pre_stop_s(work: Workload) -> float:
    pre_stop = work.container.get("lifecycle", {}).get("preStop", {})
    return float(pre_stop.get("sleep", {}).get("seconds", 0))

"""Who may talk to whom, as the NetworkPolicies say it and as the design says it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.contract.kubernetes.objects import Document, Manifests, selects

HOME = "home"
"""The namespace that everything is deployed to."""


@dataclass(frozen=True)
class Peer:
    """A pod that sends or takes connections."""

    name: str
    namespace: str
    labels: dict[str, str] = field(hash=False)

    @property
    def namespace_labels(self) -> dict[str, str]:
        return {"kubernetes.io/metadata.name": self.namespace}


CLIENT = Peer("client", "elsewhere", {"outrider-client": "true"})
STRANGER = Peer("stranger", HOME, {"app": "stranger"})
COLLECTOR = Peer("collector", "observability", {"app": "otel-collector"})
NAMES = Peer("names", "kube-system", {"k8s-app": "kube-dns"})

SERVICE_EDGES = frozenset(
    {
        ("client", "coordinator", 7400),
        ("coordinator", "target", 7421),
        ("coordinator", "draft", 7411),
        *((service, "collector", 4317) for service in ("coordinator", "target", "draft")),
        *((service, "names", 53) for service in ("coordinator", "target", "draft")),
    }
)
"""Every connection there is, and no other: (from, to, port)."""


def open_edges(manifests: Manifests) -> frozenset[tuple[str, str, int]]:
    """Connections that the policies allow, from or to one of the services."""
    services = [Peer(work.role, HOME, work.labels) for work in manifests.workloads]
    peers = [*services, CLIENT, STRANGER, COLLECTOR, NAMES]
    ports = {port for _, _, port in SERVICE_EDGES} | {work.port for work in manifests.workloads}
    policies = manifests.of_kind("NetworkPolicy")
    return frozenset(
        (source.name, destination.name, port)
        for source in peers
        for destination in peers
        for port in ports
        if source != destination
        and (source in services or destination in services)
        and _allows(policies, "Egress", source, destination, port)
        and _allows(policies, "Ingress", destination, source, port)
    )


def _allows(
    policies: list[Document], direction: str, subject: Peer, other: Peer, port: int
) -> bool:
    """Whether `subject` may connect to (Egress) or be reached by (Ingress) `other`."""
    if subject.namespace != HOME:
        return True  # what holds elsewhere is not ours to say
    relevant = [
        policy["spec"]
        for policy in policies
        if direction in policy["spec"]["policyTypes"]
        and selects(policy["spec"]["podSelector"], subject.labels)
    ]
    if not relevant:
        return True
    return any(
        _takes_port(rule, port) and _takes_peer(rule, direction, other)
        for spec in relevant
        for rule in spec.get(direction.lower(), ())
    )


def _takes_port(rule: Document, port: int) -> bool:
    ports = rule.get("ports")
    return ports is None or any(entry["port"] == port for entry in ports)


def _takes_peer(rule: Document, direction: str, other: Peer) -> bool:
    entries = rule.get("from" if direction == "Ingress" else "to")
    return entries is None or any(all(_matches(entry, other)) for entry in entries)


def _matches(entry: Document, other: Peer) -> Iterator[bool]:
    if entry.keys() - {"podSelector", "namespaceSelector"}:
        raise AssertionError(f"not understood in a NetworkPolicy: {entry}")
    if "namespaceSelector" in entry:
        yield selects(entry["namespaceSelector"], other.namespace_labels)
    else:
        yield other.namespace == HOME
    yield selects(entry.get("podSelector", {}), other.labels)

"""The Kubernetes manifests against their schema, the code and our own policies."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import kubernetes_validate
import pytest

from tests.contract.kubernetes import safety, wiring
from tests.contract.kubernetes.faults import FAULTS, Change, Policy
from tests.contract.kubernetes.objects import Manifests

K8S = Path(__file__).parents[2] / "k8s"
KUBERNETES_VERSION = "1.37"
FOLDERS = ("base", "overlays/gpu")


COMMON: tuple[Policy, ...] = (
    safety.images_are_pinned,
    safety.mounts_have_volumes,
    safety.no_namespace_is_named,
    safety.pods_are_restricted,
    safety.resources_are_bounded,
    safety.roles_are_complete,
    safety.tokens_stay_out,
    wiring.addresses_are_services,
    wiring.edges_are_those_of_the_design,
    wiring.grace_outlasts_drain,
    wiring.ports_agree,
    wiring.probes_ask_for_known_names,
    wiring.selectors_fit_labels,
    wiring.settings_are_valid,
    wiring.startup_has_time,
    wiring.variables_are_known,
    wiring.workers_are_headless,
)
POLICIES: dict[str, tuple[Policy, ...]] = {
    "base": (*COMMON, safety.no_gpu_is_asked_for),
    "overlays/gpu": (*COMMON, safety.gpu_pools_are_apart),
}


@cache
def rendered(folder: str) -> Manifests:
    return Manifests.render(K8S / folder)


@pytest.mark.parametrize("folder", FOLDERS)
def test_objects_fit_the_strict_schema(folder: str) -> None:
    for document in rendered(folder).documents:
        kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize(
    ("folder", "policy"),
    [(folder, policy) for folder, policies in POLICIES.items() for policy in policies],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_policy_holds(folder: str, policy: Policy) -> None:
    assert list(policy(rendered(folder))) == []


def test_every_overlay_is_checked() -> None:
    found = {str(path.parent.relative_to(K8S)) for path in K8S.rglob("kustomization.yaml")}
    assert found == set(FOLDERS)


@pytest.mark.parametrize(
    ("policy", "place", "change"), FAULTS, ids=lambda v: getattr(v, "__name__", "")
)
def test_policy_finds_a_planted_fault(
    policy: Policy, place: tuple[str, str], change: Change
) -> None:
    folder = "overlays/gpu" if policy is safety.gpu_pools_are_apart else "base"
    broken = rendered(folder).copy()
    change(broken.find(*place))

    assert list(policy(broken))


def test_every_policy_has_a_planted_fault() -> None:
    assert {policy for policy, _, _ in FAULTS} == {
        policy for policies in POLICIES.values() for policy in policies
    }

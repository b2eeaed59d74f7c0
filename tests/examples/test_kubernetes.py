"""The Kubernetes manifests: consistent, valid, and their containers start with their variables, volumes and probes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.config.sources import from_environment
from tests.container.running import Container
from tests.examples.reading import EXAMPLES, documents
from tools import go
from tools.kafka import Unavailable

FILES = ("kubernetes/pod.yaml", "kubernetes/statefulset.yaml")
NAMESPACE = "team"
"""Namespace into which a person applies manifests that name none."""
COMMIT = "import sys; from tests.container.committing import commit; print(commit(sys.argv[1]))"


class Manifest:
    """A service, the workload behind it, and the container of its pods."""

    def __init__(self, path: str) -> None:
        objects = {document["kind"]: document for document in documents(path)}
        self.service = objects["Service"]
        (kind,) = objects.keys() & {"Deployment", "StatefulSet"}
        self.workload = objects[kind]
        self.namespace = self.workload["metadata"].get("namespace", NAMESPACE)
        self.pod = self.workload["spec"]["template"]
        (self.container,) = self.pod["spec"]["containers"]
        self.pod_name = "ottla-0" if kind == "StatefulSet" else "ottla-5d4f-x2x9z"

    def environment(self) -> dict[str, str]:
        """Return the container's variables as the kubelet sets them: fields of the pod, and references to earlier variables."""
        fields = {"metadata.name": self.pod_name, "metadata.namespace": self.namespace}
        values: dict[str, str] = {}
        for variable in self.container["env"]:
            source = variable.get("valueFrom")
            text = variable["value"] if source is None else fields[source["fieldRef"]["fieldPath"]]
            values[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda name: values[name[1]], text)
        return values

    def dns_names(self) -> tuple[str, ...]:
        """Return the names that the cluster's DNS has for the service, and for its pod if the service is headless."""
        service = self.service["metadata"]["name"]
        domain = f"{service}.{self.namespace}.svc"
        pod = (f"{self.pod_name}.{domain}",) if self.service["spec"].get("clusterIP") == "None" else ()
        return (service, domain, *pod)


@pytest.fixture(params=FILES)
def manifest(request: pytest.FixtureRequest) -> Manifest:
    return Manifest(request.param)


def test_kubernetes_manifest_names_ports_and_labels_consistently(manifest: Manifest) -> None:
    labels = manifest.pod["metadata"]["labels"]
    assert manifest.service["spec"]["selector"].items() <= labels.items()
    assert manifest.workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert manifest.workload["spec"]["replicas"] == 1
    ports = {port["name"]: port["containerPort"] for port in manifest.container["ports"]}
    assert all(port["port"] == ports[port["targetPort"]] for port in manifest.service["spec"]["ports"])
    assert manifest.container["livenessProbe"]["tcpSocket"]["port"] in ports
    templates = manifest.workload["spec"].get("volumeClaimTemplates", [])
    volumes = {volume["name"] for volume in manifest.pod["spec"]["volumes"]} | {claim["metadata"]["name"] for claim in templates}
    assert {mounted["name"] for mounted in manifest.container["volumeMounts"]} == volumes
    if manifest.workload["kind"] == "StatefulSet":
        assert manifest.workload["spec"]["serviceName"] == manifest.service["metadata"]["name"]
        assert manifest.service["metadata"]["namespace"] == manifest.namespace


def test_kubernetes_pod_meets_the_restricted_security_standard(manifest: Manifest) -> None:
    pod, container = manifest.pod["spec"]["securityContext"], manifest.container["securityContext"]
    assert pod["runAsNonRoot"] and pod["runAsUser"] == pod["fsGroup"] == 1000
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert {"cpu", "memory"} <= manifest.container["resources"]["requests"].keys()
    assert "memory" in manifest.container["resources"]["limits"]


def test_kubernetes_manifest_sets_only_known_environment_variables(manifest: Manifest) -> None:
    _, ignored = from_environment(manifest.environment())
    assert ignored == []


def test_advertised_host_of_the_kubernetes_pod_is_the_name_of_its_service(manifest: Manifest) -> None:
    advertised = manifest.environment()["KAFKA_ADVERTISED_LISTENERS"]
    host = re.fullmatch(r"PLAINTEXT://(.+):9092", advertised)
    assert host is not None
    assert host[1] in manifest.dns_names()


@pytest.mark.full
def test_kubernetes_accepts_the_example_manifests(tmp_path: Path) -> None:
    try:
        program = go.built(Path(__file__).parent / "manifests")
    except Unavailable as missing:
        pytest.skip(str(missing))
    done = subprocess.run([program, *(EXAMPLES / path for path in FILES)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["Service", "Deployment", "Namespace", "Service", "StatefulSet"]), done
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((EXAMPLES / FILES[0]).read_text().replace("readinessProbe", "readynessProbe"))
    done = subprocess.run([program, wrong], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'unknown field "spec.template.spec.containers[0].readynessProbe"' in done.stdout


def probed(container: Container, probe: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    if "exec" in probe:
        return container.run(*probe["exec"]["command"])
    return container.run("bash", "-c", f"</dev/tcp/127.0.0.1/{ {'kafka': 9092}[probe['tcpSocket']['port']] }")


@pytest.mark.wire
def test_kubernetes_container_with_read_only_root_serves_at_its_dns_name(
    started: Callable[..., Container], manifest: Manifest
) -> None:
    writable = tuple(mounted["mountPath"] for mounted in manifest.container["volumeMounts"])
    container = started(environment=manifest.environment(), names=manifest.dns_names(), writable=writable)
    container.wait_for("Kafka Server started")
    assert container.run("sh", "-c", "echo x > /home/ottla/x").returncode != 0, "the root is not read-only"
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        done = probed(container, manifest.container[name])
        assert done.returncode == 0, done
    # A client of the service gets the advertised address in the metadata, and connects there.
    container.environment["PYTHONPATH"] = str(EXAMPLES.parent)
    done = container.run(sys.executable, "-c", COMMIT, f"{manifest.dns_names()[1]}:9092")
    assert done.stdout == "[b'committed']\n", done.stderr
    scrape = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.2:9404/metrics').read().decode())"
    metrics = container.run("python3", "-c", scrape)
    assert 'ottla_txn_total{outcome="commit"} 1.0' in metrics.stdout
    assert container.stop() == 0
    assert list(container.image.at("data").rglob("orders-*")), "the records are not in the volume"

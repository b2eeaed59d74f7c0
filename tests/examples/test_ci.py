"""The CI files: their shell steps run in a temporary project, with this checkout in place of the published package."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.container.running import Container
from tests.examples import shells
from tests.examples.reading import EXAMPLES, commands, document
from tools.kafka import free_port

PROGRAM = "test_orders.py"


def github() -> dict[str, Any]:
    jobs: dict[str, Any] = document("ci/github-actions.yml")["jobs"]
    return jobs


def gitlab() -> dict[str, Any]:
    jobs: dict[str, Any] = {name: job for name, job in document("ci/gitlab-ci.yml").items() if name != "default"}
    return jobs


def scripts() -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the shell steps of each job and its variables. GitLab runs all lines of a job in one shell."""
    jobs: dict[str, tuple[list[str], dict[str, str]]] = {}
    for name, job in github().items():
        steps = [step["run"] for step in job["steps"] if "run" in step and step.get("if") != "failure()"]
        jobs[f"github-{name}"] = steps, job["env"]
    for name, job in gitlab().items():
        jobs[f"gitlab-{name}"] = ["\n".join(job["script"])], job["variables"]
    return jobs


def project(directory: Path) -> Path:
    directory.mkdir()
    shutil.copy(EXAMPLES / "ci" / PROGRAM, directory)
    (directory / "vendor").mkdir()
    (directory / "vendor" / "ottla-8.0.0-py3-none-any.whl").touch()
    return directory


def test_example_ci_jobs_use_the_address_of_their_service() -> None:
    service = github()["service"]
    assert service["services"]["kafka"]["ports"] == ["9092:9092"]
    assert service["env"]["KAFKA_BOOTSTRAP"] == "localhost:9092"
    (kafka,) = gitlab()["service"]["services"]
    assert gitlab()["service"]["variables"]["KAFKA_BOOTSTRAP"] == f"{kafka['alias']}:{kafka['variables']['HEALTHCHECK_TCP_PORT']}"
    assert all("actions/checkout@v4" in str(job["steps"][0]) for job in github().values())
    assert github()["pip"]["steps"][-1] == {"if": "failure()", "run": "cat ottla.log"}


@pytest.mark.wire
@pytest.mark.parametrize("name", ["github-pip", "gitlab-pip"])
def test_example_ci_job_that_starts_a_broker_passes(name: str, tmp_path: Path) -> None:
    steps, variables = scripts()[name]
    port = str(free_port())
    # Each step of a GitHub job has its own shell. Background processes of earlier steps continue.
    script = "\n".join(f"bash -eo pipefail <<'STEP'\n{step}\nSTEP" for step in steps)
    own = {key: value.replace("9092", port) for key, value in variables.items()}
    output = shells.run(script.replace("9092", port), project(tmp_path / "project"), commands(tmp_path / "bin"), own)
    assert "1 passed" in output


@pytest.mark.wire
@pytest.mark.parametrize("name", ["github-service", "gitlab-service"])
def test_example_ci_job_with_a_broker_service_passes(name: str, started: Callable[..., Container], tmp_path: Path) -> None:
    """The job runs in the network of the service's container, where the service has the name that the job uses."""
    steps, variables = scripts()[name]
    if name.startswith("github"):
        service, names = github()["service"]["services"]["kafka"]["env"], ()
    else:
        (kafka,) = gitlab()["service"]["services"]
        service, names = kafka["variables"], (kafka["alias"],)
    container = started(environment=service, names=names)
    container.wait_for("Kafka Server started")
    assert container.run(*container.image.health).returncode == 0
    shutil.copytree(project(tmp_path / "project"), container.image.at("tmp/project"))
    shutil.copytree(commands(tmp_path / "bin"), container.image.at("tmp/bin"))
    container.environment |= {**variables, "PATH": f"/tmp/bin:{container.environment['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = container.run("bash", "-eo", "pipefail", "-c", "\n".join(["cd /tmp/project", *steps]))
    assert "1 passed" in done.stdout, done

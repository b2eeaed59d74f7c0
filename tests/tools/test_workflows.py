"""GitHub's workflows can be parsed, and the commands in them exist. Otherwise a mistake appears only when a tag is pushed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
NIGHTLY = ROOT / ".github" / "workflows" / "nightly.yml"
TARGET = re.compile(r"^([^\s#:=]+):(?!=)", re.MULTILINE)
PUBLISH = "pypa/gh-action-pypi-publish"


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(workflow).values() for step in job["steps"]]


def command_lines(workflow: Path) -> list[list[str]]:
    """Return the lines of all scripts, split into words."""
    lines = [line for step in steps(workflow) for line in step.get("run", "").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if "{" not in line]


def unknown_commands(workflow: Path, makefile: str) -> list[str]:
    """Return Makefile targets and test files that do not exist."""
    targets = {target.replace("$(VENV)", ".venv") for target in TARGET.findall(makefile)}
    unknown = []
    for words in command_lines(workflow):
        if "make" in words:
            wanted = words[words.index("make") + 1 :]
            unknown += [word for word in wanted if "=" not in word and not word.startswith("-") and word not in targets]
        if "pytest" in words:
            unknown += [word for word in words if word.startswith("tests/") and not (ROOT / word).exists()]
    return unknown


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_of_ci_workflows_exist(workflow: Path) -> None:
    assert unknown_commands(workflow, (ROOT / "Makefile").read_text()) == []
    assert any(words[:1] == ["make"] for words in command_lines(workflow))
    assert all("uses" in step or "run" in step for step in steps(workflow))
    limit = 350 if workflow == NIGHTLY else 90
    assert all(job["timeout-minutes"] <= limit and job["runs-on"] for job in jobs(workflow).values())


def test_unknown_command_in_a_ci_workflow_is_detected(tmp_path: Path) -> None:
    workflow = tmp_path / "x.yml"
    workflow.write_text(
        "jobs: {a: {steps: [{run: make releese}, {run: python -m pytest -q tests/gone.py}, {run: make test LOAD=2}]}}"
    )
    assert unknown_commands(workflow, (ROOT / "Makefile").read_text()) == ["releese", "tests/gone.py"]


def test_release_workflow_publishes_the_files_of_make_release_for_a_tag() -> None:
    whole = yaml.safe_load(RELEASE.read_text())
    # YAML 1.1 reads the key "on" as true.
    assert whole[True] == {"push": {"tags": ["v[0-9]*"]}}
    assert whole["permissions"] == {}
    build, publish = whole["jobs"]["build"], whole["jobs"]["publish"]
    assert {"run": "make release"} in build["steps"]
    assert build["permissions"] == {"contents": "read"}
    assert publish["needs"] == "build"
    assert (publish["permissions"], publish["environment"]["name"]) == ({"id-token": "write"}, "pypi")
    assert "run" not in {key for step in publish["steps"] for key in step}, "code of the repository could use the token"
    (upload,) = (step for step in publish["steps"] if step["uses"].startswith(PUBLISH))
    assert upload["with"] == {"packages-dir": "dist", "attestations": True}


def test_release_workflow_stores_no_secret_and_pins_its_actions() -> None:
    text = RELEASE.read_text()
    assert "secrets." not in text
    assert not re.search(r"password|repository-url|index-url", text.partition("jobs:")[2])
    for step in steps(RELEASE):
        if "uses" in step:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", step["uses"]), step["uses"]
    # The comment next to each pinned commit names its version.
    assert len(re.findall(r"uses: \S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", text, re.MULTILINE)) == text.count("uses: ")


def test_release_workflow_checks_each_supported_python() -> None:
    (setup,) = (step for step in steps(RELEASE) if "setup-python" in step.get("uses", ""))
    supported = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text())
    assert sorted(setup["with"]["python-version"].split()) == supported


def test_ci_workflow_tests_windows_and_macos() -> None:
    runners = {job["runs-on"] for job in jobs(ROOT / ".github" / "workflows" / "tests.yml").values()}
    assert {"windows-latest", "macos-latest", "ubuntu-latest"} <= runners


def recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile."""
    rest = (ROOT / "Makefile").read_text().partition(f"\n{target}:")[2]
    return [line.strip() for line in rest.partition("\n\n")[0].splitlines()[1:]]


def test_nightly_workflow_runs_each_test_and_each_campaign_without_time_budgets() -> None:
    (tests,) = recipe("nightly-tests")
    assert "check,smoke,full,nightly" in tests and "--budgets" not in tests
    found = jobs(NIGHTLY)
    assert {"run": "make nightly-tests"} in found["tests"]["steps"]
    campaigns = [line.removeprefix("$(MAKE) --no-print-directory ") for line in recipe("campaigns")]
    assert found["campaigns"]["strategy"]["matrix"]["campaign"] == campaigns
    assert len(campaigns) > 10
    whole = yaml.safe_load(NIGHTLY.read_text())
    assert whole[True]["schedule"] and whole["permissions"] == {"contents": "read"}


def test_nightly_workflow_installs_the_programs_that_examples_need() -> None:
    used = " ".join(step.get("uses", "") for step in jobs(NIGHTLY)["tests"]["steps"])
    assert all(f"setup-{name}@" in used for name in ("python", "java", "go", "node", "gradle"))

"""Installs a built wheel in new virtual environments, one for each Python that ottla supports, and describes its dependencies.

No environment contains the checkout. A Python that the machine does not have is named in the output.
"""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from email.message import Message
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

TIMEOUT_S = 600
_SMOKE = """
import ottla
assert ottla.__version__ == {version!r}, ottla.__version__
with ottla.Broker() as broker:
    broker.create_topic("orders", 1)
    assert broker.records("orders") == []
"""


class NotReady(Exception):
    """A check has failed. The message says what to do."""


def run(command: list[str], cwd: Path, **environment: str) -> str:
    """Return the output of a command. Raises `NotReady`."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotReady(f"{' '.join(command)} takes longer than {TIMEOUT_S} s") from None
    if done.returncode:
        raise NotReady(f"{' '.join(command)} failed:\n{done.stdout[-3_000:]}")
    return done.stdout


def metadata_of(wheel: Path, version: str) -> Message:
    with zipfile.ZipFile(wheel) as files:
        return email.message_from_bytes(files.read(f"ottla-{version}.dist-info/METADATA"))


def supported_pythons(wheel: Path, version: str) -> list[str]:
    """Return the versions of Python in the classifiers, such as 3.11."""
    named = "\n".join(metadata_of(wheel, version).get_all("Classifier", []))
    return re.findall(r"^Programming Language :: Python :: (3\.\d+)$", named, re.MULTILINE)


def _candidates(minor: str) -> Iterable[str | Path]:
    """Yield commands that may start this version of Python. A command may be a shim of pyenv that only prints an error."""
    yield sys.executable
    if (found := shutil.which(f"python{minor}")) is not None:
        yield found
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(home.glob(f"versions/{minor}.*/bin/python"), reverse=True)
    if (uv := shutil.which("uv")) is not None:
        done = subprocess.run([uv, "python", "find", "--no-python-downloads", minor], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            yield done.stdout.strip()


def find_python(minor: str) -> Path | None:
    """Return an interpreter of this version; None if the machine has none."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in _candidates(minor):
        done = subprocess.run([str(candidate), "-c", program], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == minor:
            return Path(candidate)
    return None


def check_installation(wheel: Path, version: str, python: Path, *, is_offline: bool = False) -> str:
    """Check in a new environment that the command prints the version, and that a broker starts. Returns the printed version.

    Offline, the environment uses the dependencies of the Python that runs this check.
    """
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        clean = {"PYTHONPATH": "", "HOME": directory}
        run([str(python), "-m", "venv", str(home / "venv")], home)
        python = home / "venv" / "bin" / "python"
        run([str(python), "-m", "pip", "install", "-q", *(["--no-deps"] if is_offline else []), str(wheel)], home, PYTHONPATH="")
        if is_offline:
            site = next((home / "venv" / "lib").glob("python*/site-packages"))
            # Add the dependencies after the environment's own packages, which include the wheel.
            theirs = "\n".join(path for path in sys.path if path.endswith("site-packages"))
            (site / "dependencies.pth").write_text(f"{theirs}\n")
        said = run([str(python.parent / "ottla"), "--version"], home, **clean).strip()
        if said != f"ottla {version}":
            raise NotReady(f"ottla --version says {said!r}, and ottla/__init__.py {version}")
        run([str(python), "-c", _SMOKE.format(version=version)], home, **clean)
    return said


def required_names(wheel: Path, version: str) -> set[str]:
    """Return the normalized names of the dependencies that an installation without extras has on this system."""
    requirements = map(Requirement, metadata_of(wheel, version).get_all("Requires-Dist", []))
    return {normalized(it.name) for it in requirements if it.marker is None or it.marker.evaluate({"extra": ""})}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def write_sbom(wheel: Path, version: str, pyproject: Path, target: Path) -> str:
    """Write the dependencies of an installation without extras, with versions and licences, as CycloneDX. Raises `NotReady`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        # Omit pip, which is not a dependency of ottla.
        run([sys.executable, "-m", "venv", "--without-pip", str(home / "venv")], home)
        python = home / "venv" / "bin" / "python"
        run([sys.executable, "-m", "pip", "--python", str(python), "install", "-q", str(wheel)], home, PYTHONPATH="")
        for origin in (home / "venv").glob("lib/python*/site-packages/*.dist-info/direct_url.json"):
            # The file has the path of the wheel on this machine.
            origin.unlink()
        describe = [sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", str(pyproject), "--mc-type", "application"]
        run([*describe, "--output-reproducible", "--of", "JSON", "-o", str(target), str(python)], home, PYTHONPATH="")
    described: dict[str, Any] = json.loads(target.read_text())
    # The tool reads the component from pyproject.toml, which does not have the version.
    described["metadata"]["component"] |= {"version": version, "purl": f"pkg:pypi/ottla@{version}"}
    target.write_text(json.dumps(described, indent=2) + "\n")
    return check_sbom(described, required_names(wheel, version), version, directory)


def check_sbom(described: dict[str, Any], required: set[str], version: str, directory: str) -> str:
    """Check that an SBOM has all dependencies, and nothing of the machine on which it was made. Raises `NotReady`."""
    root = described["metadata"]["component"]
    if (root["name"], root.get("version")) != ("ottla", version):
        raise NotReady(f"the SBOM describes {root['name']} {root.get('version')}, and not ottla {version}")
    components = {normalized(component["name"]): component for component in described["components"]}
    components.pop("ottla", None)
    if missing := sorted(required - set(components)):
        raise NotReady(f"the SBOM lacks {', '.join(missing)}")
    if unversioned := sorted(name for name, component in components.items() if not component.get("version")):
        raise NotReady(f"the SBOM has no version of {', '.join(unversioned)}")
    text = json.dumps(described)
    if directory in text or "file://" in text:
        raise NotReady("the SBOM has paths of this machine")
    return f"CycloneDX {described['specVersion']}, {len(components)} dependencies"

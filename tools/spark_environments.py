"""Makes a virtual environment for each version of Spark of `tools.spark_matrix`, and interpreters of other versions of Python."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.spark.versions import VERSIONS
from tools.kafka import cache_dir

ROOT: Final = Path(__file__).parent.parent


@dataclass(slots=True, frozen=True)
class Release:
    """A release of Spark with the packages that are installed with it; ``connector`` is the version of its package for Kafka."""

    version: str
    connector: str
    pandas: str
    scala: str

    @property
    def packages(self) -> str:
        return f"org.apache.spark:spark-sql-kafka-0-10_{self.scala}:{self.connector}"

    @property
    def packages_of_connect(self) -> str:
        """The packages for a server of Spark Connect. PySpark from pip has this server since Spark 4.0."""
        if not self.version.startswith("3."):
            return self.packages
        return f"{self.packages},org.apache.spark:spark-connect_{self.scala}:{self.connector}"


RELEASES: Final = {
    minor: Release(
        version=together.pyspark.removeprefix("pyspark=="),
        connector=together.packages,
        pandas=together.pandas,
        scala=together.scala,
    )
    for minor, together in VERSIONS.items()
}
"""The tested release of each minor version of Spark."""


class Failed(Exception):
    """A cell of the matrix has failed."""


def environment_of(release: Release) -> Path:
    """Return the interpreter of a virtual environment with a release of Spark. Creates it if it does not exist."""
    folder = cache_dir() / "spark-matrix" / release.version
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        needed = [
            *project["dependencies"],
            *project["optional-dependencies"]["demo"],
            "fastavro>=1.9",
            "pyarrow>=17",
            "numpy>=1.26",
        ]
        connect = ["grpcio>=1.67", "grpcio-status>=1.67", "googleapis-common-protos>=1.65", "zstandard>=0.25", "setuptools"]
        wanted = [f"pyspark=={release.version}", release.pandas, *connect, *needed]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        ready.touch()
    return python


def other_patch(python: Path, folder: Path) -> Path:
    """Return an interpreter of the same minor version and another patch version, which sees the same packages. Raises `Failed`."""
    minor = f"python3.{sys.version_info.minor}"
    for place in _interpreters(minor):
        if _version(place) != _version(python):
            worker = _environment(place, folder)
            packages = next((python.parent.parent / "lib").glob("python3.*")) / "site-packages"
            target = next((worker / "lib").glob("python3.*")) / "site-packages" / "matrix.pth"
            target.write_text(f"import site; site.addsitedir({str(packages)!r})\n{ROOT}\n")
            return worker / "bin" / "python"
    raise Failed(f"no {minor} of another patch version was found")


def other_minor(folder: Path) -> Path:
    """Return an interpreter of another minor version without packages, which Spark's workers need not import before they compare
    versions. Raises `Failed`."""
    mine = sys.version_info.minor
    for minor in sorted(range(9, mine + 4), key=lambda minor: abs(minor - mine)):
        if minor != mine:
            for place in _interpreters(f"python3.{minor}"):
                return _environment(place, folder) / "bin" / "python"
    raise Failed("no Python of another minor version was found")


def _interpreters(name: str) -> Iterator[Path]:
    """Yield the interpreters of a minor version that run. A shim of pyenv exists for versions that are not selected, too."""
    listed = Path.home() / ".pyenv" / "versions"
    places = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep)]
    for place in [*places, Path("/usr/bin"), *sorted(listed.glob("*/bin"))]:
        found = place / name
        if found.exists() and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            yield found


def _environment(interpreter: Path, folder: Path) -> Path:
    worker = folder / "worker"
    if not worker.exists():
        subprocess.run([interpreter, "-m", "venv", "--without-pip", worker], check=True)
    return worker


def _version(python: Path) -> str:
    return subprocess.run(
        [python, "-c", "import sys; print(sys.version_info[:3])"], capture_output=True, text=True, check=True
    ).stdout

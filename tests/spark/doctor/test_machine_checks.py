"""The checks of the local machine by ``ottla spark-doctor``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.client.finding import Finding, Status
from ottla.spark.doctor import machine_checks
from ottla.spark.doctor.machine_checks import check_machine, java_finding


@pytest.mark.parametrize(
    ("said", "level", "found"),
    [
        ('openjdk version "17.0.17" 2025-10-21', "ok", "17 (java)"),
        ('java version "21" 2023-09-19', "ok", "21 (java)"),
        ('openjdk version "1.8.0_472"', "failed", "8 (java)"),
        ('openjdk version "11.0.2" 2019-01-15', "failed", "11 (java)"),
        ("", "warning", "java reports no version"),
    ],
)
def test_spark_doctor_accepts_or_refuses_java_by_its_version(said: str, level: Status, found: str) -> None:
    finding = java_finding("java", said)
    assert (finding.status, finding.text) == (level, found)


def finding_of(check: str) -> Finding:
    return next(finding for finding in check_machine() if finding.check == check)


def test_spark_doctor_checks_the_python_of_the_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine_checks, "_java", lambda: java_finding("java", 'version "17"'))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert finding_of("Python").status == "ok"
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "nowhere"))
    nowhere = finding_of("Python")
    assert nowhere.status == "failed"
    assert "which does not exist" in nowhere.text
    other = tmp_path / "python3"
    other.symlink_to(sys.executable)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    assert finding_of("Python").status == "warning"


@pytest.mark.parametrize(
    ("version", "level"),
    [(None, "failed"), ("4.0.5", "ok"), ("2.4.8", "warning")],
)
def test_spark_doctor_accepts_or_refuses_the_version_of_spark(
    version: str | None, level: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_checks, "_java", lambda: java_finding("java", 'version "17"'))
    monkeypatch.setattr(machine_checks, "version_of", lambda package: version if package == "pyspark" else "1")
    assert finding_of("Spark").status == level


def test_spark_doctor_reports_missing_packages_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks, "_java", lambda: java_finding("java", 'version "17"'))
    monkeypatch.setattr(machine_checks, "version_of", lambda package: None if package == "crc32c" else "1")
    finding = finding_of("packages")
    assert (finding.status, finding.text) == ("failed", "not installed: crc32c")
    assert finding.remedy == f"{sys.executable} -m pip install crc32c"


@pytest.mark.parametrize(
    ("missing", "level", "text"),
    [
        ((), "ok", "fastavro 1, protobuf 1"),
        (("protobuf",), "ok", "fastavro 1; protobuf is not installed (for Protobuf values)"),
        (("fastavro", "protobuf"), "warning", "not installed: fastavro, protobuf"),
    ],
)
def test_spark_doctor_shows_the_packages_for_values_of_a_registry(
    missing: tuple[str, ...], level: Status, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_checks, "_java", lambda: java_finding("java", 'version "17"'))
    monkeypatch.setattr(machine_checks, "version_of", lambda package: None if package in missing else "1")
    finding = finding_of("registry packages")
    assert (finding.status, finding.text) == (level, text)
    if level == "warning":
        assert finding.remedy.endswith(f"{sys.executable} -m pip install fastavro protobuf")

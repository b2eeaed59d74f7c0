"""Apache Kafka as the oracle for tests: how its processes are started and stopped."""

from __future__ import annotations

import subprocess

import pytest

from tools import kafka


@pytest.mark.full
@pytest.mark.java
@pytest.mark.parametrize("version", sorted({kafka.ORACLE_VERSION, kafka.TOOLS_VERSION}))
def test_jvm_loads_kafka_classes_from_the_class_data_archive(version: str) -> None:
    try:
        archive = kafka.class_archive(version)
    except kafka.Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    if archive is None:
        pytest.skip("this Java makes no archive of classes")
    command = [kafka.java(), *kafka.QUICK_JVM.arguments(version), "-Xlog:class+load", "-cp", kafka.jars("all", version)]
    loaded = subprocess.run([*command, "kafka.tools.StorageTool", "random-uuid"], capture_output=True, text=True, check=True).stdout
    of_kafka = [line for line in loaded.splitlines() if "org.apache.kafka." in line]
    assert sum("shared objects file" in line for line in of_kafka) > len(of_kafka) / 2

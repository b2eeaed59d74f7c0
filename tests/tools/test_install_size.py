"""An installation without extras stays small: docs/performance.md has its size."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.install_size import MIB, installed, main, size_bytes

MAX_MIB = 60
"""Upper bound in MiB. A new dependency of 14 MiB would need a reason."""
MAX_PACKAGES = 24
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


def test_ottla_without_extras_installs_few_packages_within_a_size_limit() -> None:
    packages = installed("ottla")
    assert {"aiokafka", "click", "h11", "msgspec", "ottla", "rich"} <= set(packages)
    assert not {"confluent-kafka", "numpy", "pyspark", "setuptools"} & set(packages)
    assert len(packages) <= MAX_PACKAGES, sorted(packages)
    sizes = {name: size_bytes(package) / MIB for name, package in packages.items()}
    assert 10 < sum(sizes.values()) <= MAX_MIB, sizes
    assert 1 < sizes["ottla"] <= 8, "data or tests became part of the package"


def test_installed_packages_of_ottla_with_an_extra_include_that_of_the_extra() -> None:
    with_tests = installed("ottla", extras=frozenset({"demo"}))
    assert set(with_tests) - set(installed("ottla")) == {"confluent-kafka"}


def test_documented_install_size_is_the_sum_of_its_table() -> None:
    section = PAGE.read_text().partition("## Size of an installation")[2].partition("\n## ")[0]
    rows = [
        (name, float(size)) for name, size in re.findall(r"^\| ([\w ]+) \| ([\d.]+) \|$", section.replace("-", "_"), re.MULTILINE)
    ]
    total = next(size for name, size in rows if name.startswith("all "))
    assert abs(sum(size for name, size in rows if not name.startswith("all ")) - total) < 0.5
    assert total <= MAX_MIB
    assert main.__module__ in section

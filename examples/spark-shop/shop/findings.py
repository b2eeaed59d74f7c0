"""The findings of an audit: stages with their outcomes and broken rules. Also applies rules to static frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

EXAMPLES: Final = 5
"""Number of examples in a finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule, the number of cases, and examples."""

    rule: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the audit: the number of its inputs, the number of each outcome, and the broken rules. In a sound stage the
    outcomes add up to ``inputs``."""

    name: str
    inputs: int
    outcomes: Mapping[str, int]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    stages: tuple[Stage, ...]

    @property
    def is_sound(self) -> bool:
        return not any(stage.findings for stage in self.stages)


def tally(by: str, **sides: DataFrame) -> DataFrame:
    """Count the values of the column ``by`` in each frame. The tally has a row per value and a column per frame. Any other column
    ``x`` of a frame becomes ``min_x`` and ``max_x``."""
    kinds = {name: frame.schema[name].dataType for frame in sides.values() for name in frame.columns if name != by}
    united = [
        frame.select(
            f.col(by).cast("string").alias(by),
            *(f.lit(int(other == side)).alias(other) for other in sides),
            *((f.col(name) if name in frame.columns else f.lit(None).cast(kind)).alias(name) for name, kind in kinds.items()),
        )
        for side, frame in sides.items()
    ]
    bounds = [bound(name).alias(f"{bound.__name__}_{name}") for name in kinds for bound in (f.min, f.max)]
    return reduce(DataFrame.unionByName, united).groupBy(by).agg(*(f.sum(side).alias(side) for side in sides), *bounds)


def broken(counted: DataFrame, by: str, rules: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return a finding for each rule whose SQL condition is true for a row."""
    counts = counted.agg(*(f.count(f.when(f.expr(condition), 1)).alias(str(n)) for n, condition in enumerate(rules.values())))
    row = counts.collect()[0]
    return tuple(
        Finding(rule, count, tuple(str(one[0]) for one in counted.where(condition).select(by).limit(EXAMPLES).collect()))
        for (rule, condition), count in zip(rules.items(), row, strict=True)
        if count
    )


def sums(counted: DataFrame, **columns: str) -> dict[str, int]:
    """Evaluate SQL aggregates of a tally."""
    row = counted.agg(*(f.expr(text).cast("long").alias(name) for name, text in columns.items())).collect()[0]
    return {name.replace("_", " "): row[name] or 0 for name in columns}


def shown(audited: Audit) -> str:
    """Format the audit for a terminal."""
    lines = []
    for stage in audited.stages:
        outcomes = ", ".join(f"{count:,} {name}" for name, count in stage.outcomes.items())
        lines.append(f"{stage.name:<13}{stage.inputs:>8,} {'receipts' if stage.name == 'transactions' else 'inputs'} = {outcomes}")
        lines += [f"  BROKEN: {found.rule}: {found.count:,}, such as {', '.join(found.examples)}" for found in stage.findings]
    lines.append("sound: each record is accounted for once" if audited.is_sound else "not sound")
    return "\n".join(lines)

"""The printed report of a chaos run."""

from __future__ import annotations

from tests.chaos.director import Report
from tests.chaos.points import OTHERS, STAGES

SIDES = ("before", "torn", "after")


def table(report: Report) -> str:
    """Return a table of kills by write and moment (before, within, after), the share of kills inside a commit, and transaction
    outcomes."""
    lines = [f"seed {report.seed}", f"{'killed at':<18}" + "".join(f"{side:>8}" for side in SIDES)]
    for kind in (*STAGES, *OTHERS):
        counts = [report.kills[kind, side] for side in SIDES]
        if any(counts):
            lines.append(f"{kind:<18}" + "".join(f"{count:>8}" for count in counts))
    lines.append(f"{'from outside':<18}{report.kills['anywhere', 'from outside']:>8}")
    share = report.inside_commit / report.killed if report.killed else 0
    lines.append(
        f"{report.killed} kills: {report.inside_commit} inside a commit ({share:.0%}), {report.inside_abort} inside an abort, "
        f"{report.between_markers} between two markers, {report.in_recovery} while starting"
    )
    if report.others:
        lines.append("also: " + ", ".join(f"{count} x {what}" for what, count in sorted(report.others.items())))
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(report.transactions.items()))
    lines.append(f"{report.transactions.total():,} transactions: {outcomes}; {report.fenced} times a producer was fenced")
    lines += [f"FOUND {finding}" for finding in report.findings]
    return "\n".join(lines)

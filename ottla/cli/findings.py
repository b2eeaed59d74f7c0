"""Shows the results of checks (``ottla doctor``): as lines during the checks, or as one JSON document."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.output import printable, show_json

if TYPE_CHECKING:
    from ottla.client.finding import Finding

MIN_WIDTH: Final = 60
CHECK_WIDTH: Final = 10
"""Minimum width, in characters, of the column with the names of checks."""
STATUS_COLOURS: Final = {"ok": "green", "warning": "yellow", "failed": "red"}


def show_findings(bootstrap: str, findings: Iterable[Finding], *, as_json: bool) -> list[str]:
    """Show each finding as soon as its check ends, and return the names of the failed checks."""
    found = []
    for finding in findings:
        found.append(finding)
        if not as_json:
            _show(finding)
    if as_json:
        show_json(document(bootstrap, found))
    return failed_checks(found)


def show_findings_of_each(addresses: Mapping[str, Iterable[Finding]], *, as_json: bool) -> dict[str, list[str]]:
    """Show the findings for several addresses, which are examined one after the other. Returns the names of the failed checks by
    address."""
    failed, documents = {}, []
    for at, (address, findings) in enumerate(addresses.items()):
        if as_json:
            found = list(findings)
            documents.append(document(address, found))
            failed[address] = failed_checks(found)
            continue
        click.echo(("\n" if at else "") + click.style(address, bold=True))
        failed[address] = show_findings(address, findings, as_json=False)
    if as_json:
        is_healthy = not any(failed.values())
        show_json({"bootstrap": ",".join(addresses), "healthy": is_healthy, "addresses": documents})
    return failed


def failed_checks(found: Iterable[Finding]) -> list[str]:
    return list(dict.fromkeys(finding.check for finding in found if finding.status == "failed"))


def document(bootstrap: str, found: Sequence[Finding]) -> dict[str, Any]:
    checks = [{"check": f.check, "status": f.status, "text": f.text, "remedy": f.remedy or None} for f in found]
    return {"bootstrap": bootstrap, "healthy": not failed_checks(found), "checks": checks}


def _show(finding: Finding) -> None:
    width = max(MIN_WIDTH, shutil.get_terminal_size().columns)
    head = f"{finding.status:<8} {printable(finding.check):<{CHECK_WIDTH}} "
    margin = " " * (len(f"{finding.status:<8} ") + CHECK_WIDTH + 1)
    for text, indent in ((finding.text, head), (finding.remedy, f"{margin}-> ")):
        if text:
            lines = textwrap.wrap(printable(text), width, initial_indent=indent, subsequent_indent=margin, break_on_hyphens=False)
            coloured = lines[0].replace(finding.status, click.style(finding.status, fg=STATUS_COLOURS[finding.status]), 1)
            click.echo("\n".join([coloured if indent is head else lines[0], *lines[1:]]))

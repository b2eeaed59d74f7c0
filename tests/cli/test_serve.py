"""What ``ottla serve`` passes to the process of a broker or controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.broker.process import controller_main, main
from ottla.cli.serve import command


@pytest.mark.parametrize(("process", "roles"), [(main, "broker,controller"), (controller_main, "controller")])
def test_serve_command_creates_scram_users_from_a_file_and_from_options(
    process: Any, roles: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users: list[str] = []
    monkeypatch.setattr(process, "run", lambda *args, first_users, **flags: users.extend(user.name for user in first_users))
    (tmp_path / "users").write_text("alice:hush\n")
    settings = ["process.roles=" + roles, f"log.dirs={tmp_path}/data"]
    if roles == "controller":
        settings += ["listeners=CONTROLLER://127.0.0.1:9093", "controller.listener.names=CONTROLLER", "node.id=1"]
        settings += ["controller.quorum.voters=1@127.0.0.1:9093"]
    flags = ["--users-file", str(tmp_path / "users"), "--user", "bob:hush", *(f"--set={setting}" for setting in settings)]
    result = CliRunner().invoke(command, flags)
    assert users == ["alice", "bob"], result.output + repr(result.exception)

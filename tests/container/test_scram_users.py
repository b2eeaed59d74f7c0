"""Users of ``kafka-storage format --add-scram`` in a new directory, and the first start that creates them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.config.first_user import FirstUser
from ottla.cli.first_users import users_of_file
from ottla.container.image import ContainerRefused, launch, storage
from ottla.container.scram_users import FILE, BadScramUser, scram_users
from ottla.storage.identity import META_FILE, METADATA_DIRECTORY
from ottla.storage.real_filesystem import RealFilesystem

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
TIMEOUT_S = 60
FORMAT = ("format", "-t", CLUSTER_ID)


def test_users_have_the_name_and_password_that_kafka_reads() -> None:
    values = [
        "SCRAM-SHA-512=[name=app-user,password=app-pass]",
        'SCRAM-SHA-256=[password="a=b [x]",name="Zoë"]',
        "SCRAM-SHA-256=[name=app-user,password=app-pass]",
    ]
    assert scram_users(values) == [FirstUser("app-user", "app-pass"), FirstUser("Zoë", "a=b [x]")]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "expected a mechanism"),
        ("SCRAM-SHA-1=[name=alice,password=hush]", "expected a mechanism"),
        ("SCRAM-SHA-256=name=alice,password=hush", "expected a mechanism"),
        ("SCRAM-SHA-256=[name=alice]", "only name and password are supported, both are needed, not name;"),
        ("SCRAM-SHA-256=[name=alice,password=]", "both are needed"),
        ("SCRAM-SHA-256=[]", "not nothing;"),
        ("SCRAM-SHA-256=[name=alice,salt=c2Fs,saltedpassword=aHVzaA==]", "not name, salt, saltedpassword;"),
        ("SCRAM-SHA-256=[name=alice,password=hush,iterations=8192]", "not name, password, iterations;"),
        ("SCRAM-SHA-256=[name=a:b,password=hush]", "'a:b' has a colon"),
        ("SCRAM-SHA-256=[name=#alice,password=hush]", "begins with #"),
        ("SCRAM-SHA-256=[name=alice,password=hush\nbob:hush]", "a control character"),
    ],
)
def test_user_that_cannot_be_created_is_refused_without_showing_the_password(value: str, says: str) -> None:
    with pytest.raises(BadScramUser) as refused:
        scram_users([value])
    assert says in str(refused.value)
    assert "hush" not in str(refused.value)


def test_user_with_two_passwords_is_refused() -> None:
    with pytest.raises(BadScramUser, match="'a' has two passwords"):
        scram_users(["SCRAM-SHA-256=[name=a,password=x]", "SCRAM-SHA-512=[name=a,password=y]"])


def test_first_start_creates_the_users_and_later_starts_do_not(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    environment = {"KAFKA_LOG_DIRS": str(directory), "CLUSTER_ID": CLUSTER_ID}
    user, other = "SCRAM-SHA-512=[name=alice,password=hush]", "SCRAM-SHA-256=[name=bob,password=hush]"
    storage([*FORMAT, "--add-scram", user, "-S", other], environment)
    file = directory / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert users_of_file(file) == [FirstUser("alice", "hush"), FirstUser("bob", "hush")]
    # A start may fail before or after it has created the metadata log.
    for _ in range(2):
        arguments, _ = launch(environment, tmp_path / "none")
        assert arguments[1:4] == ["--users-file", str(file), "--remove-users-file"]
        (directory / METADATA_DIRECTORY).mkdir(exist_ok=True)


def test_users_file_exists_until_the_first_start_has_succeeded(tmp_path: Path) -> None:
    user, directory = "SCRAM-SHA-512=[name=alice,password=hush]", tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as busy:
        environment = {
            "KAFKA_LOG_DIRS": str(directory),
            "CLUSTER_ID": CLUSTER_ID,
            "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{busy.getsockname()[1]}",
        }
        storage([*FORMAT, "--add-scram", user], environment)
        with started(environment, tmp_path) as process:
            assert process.communicate(timeout=TIMEOUT_S)[0] == ""
            assert process.returncode == 1
    assert (directory / METADATA_DIRECTORY).exists()
    assert (directory / FILE).exists()
    with started(environment | {"KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0"}, tmp_path) as process:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        assert not (directory / FILE).exists()
        process.terminate()
        assert "first_users_file_removed" in process.communicate(timeout=TIMEOUT_S)[1]
    arguments, _ = launch(environment, tmp_path / "none")
    assert "--users-file" not in arguments


def started(environment: dict[str, str], directory: Path) -> subprocess.Popen[str]:
    arguments, settings = launch(environment, directory / "none")
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments], env=dict(os.environ) | settings, stdout=pipe, stderr=pipe, text=True
    )


def test_users_are_synced_before_the_directory_counts_as_formatted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, bool]] = []
    sync = RealFilesystem.sync_file

    def sync_file(fs: RealFilesystem, path: str) -> None:
        sync(fs, path)
        synced.append((Path(path).name, (tmp_path / META_FILE).exists()))

    monkeypatch.setattr(RealFilesystem, "sync_file", sync_file)
    storage([*FORMAT, "--add-scram", "SCRAM-SHA-512=[name=alice,password=hush]"], {"KAFKA_LOG_DIRS": str(tmp_path)})
    assert (FILE, False) in synced


def test_formatted_directory_gets_no_further_users(tmp_path: Path) -> None:
    environment = {"KAFKA_LOG_DIRS": str(tmp_path / "data")}
    storage([*FORMAT], environment)
    user = ("--add-scram", "SCRAM-SHA-512=[name=alice,password=hush]")
    with pytest.raises(ContainerRefused, match="is already formatted"):
        storage([*FORMAT, *user], environment)
    storage([*FORMAT, "--ignore-formatted", *user], environment)
    assert not (tmp_path / "data" / FILE).exists()


def test_broker_under_another_controller_creates_no_users(tmp_path: Path) -> None:
    environment = {
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_PROCESS_ROLES": "broker",
        "KAFKA_NODE_ID": "2",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@controller:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    }
    storage([*FORMAT, "--add-scram", "SCRAM-SHA-512=[name=alice,password=hush]"], environment)
    arguments, _ = launch(environment, tmp_path / "none")
    assert "--users-file" not in arguments

"""Users of ``kafka-storage format --add-scram`` in a new directory, and the first start that creates them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.config.first_user import FirstUser
from ottla.cli.first_users import users_of_file
from ottla.container.image import ContainerRefused, launch, storage
from ottla.container.scram_users import FILE, BadScramUser, scram_users
from ottla.storage.identity import METADATA_DIRECTORY

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
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
    # A start that fails before it has created the metadata log is repeated with the same users.
    for _ in range(2):
        arguments, _ = launch(environment, tmp_path / "none")
        assert arguments[1:3] == ["--users-file", str(file)]
    (directory / METADATA_DIRECTORY).mkdir()
    arguments, _ = launch(environment, tmp_path / "none")
    assert "--users-file" not in arguments
    assert not file.exists()


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

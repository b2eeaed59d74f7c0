"""ottla and Apache Kafka give clients that authenticate the same responses, those of the transcript."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.authentication.conversations import CONVERSATIONS, DELAYED, PASSWORD, Step, outcomes, scram, steady_outcomes
from tests.wire.secured import LOGIN, SecuredBroker
from tools.kafka import ApacheKafka, Unavailable, free_port

pytestmark = [pytest.mark.wire, pytest.mark.entry("BAD-02", "BAD-11", "BAD-12", "BAD-13")]

TRANSCRIPT = Path(__file__).parent / "transcript.txt"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_OF = "listener.name.sasl_plaintext"
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    f"{_OF}.plain.sasl.jaas.config": f'{LOGIN}.plain.PlainLoginModule required user_alice="{PASSWORD}" user_bob="hush";',
    f"{_OF}.scram-sha-256.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
    f"{_OF}.scram-sha-512.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
    f"{_OF}.oauthbearer.sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
    f"{_OF}.plain.connections.max.reauth.ms": "60000",
}
CASES = [pytest.param(title, id=title, marks=pytest.mark.entry(title.split()[0])) for title in CONVERSATIONS]
Addresses = dict[bool, str]
"""The addresses of the listeners without (False) and with SASL (True)."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    port = free_port()
    users = [a for m in MECHANISMS[1:3] for a in ("--add-scram", f"{m}=[name=alice,password={PASSWORD}]")]
    made = ApacheKafka(
        tmp_path_factory.mktemp("kafka"),
        settings=SETTINGS,
        format_arguments=("--standalone", *users),
        listeners={"SASL_PLAINTEXT": port},
    )
    try:
        made.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield {True: f"127.0.0.1:{port}", False: made.bootstrap}
    made.stop()


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    started = SecuredBroker(tmp_path_factory.mktemp("secured"), {**SETTINGS, "ssl.client.auth": "none"}, PASSWORD)
    yield {True: started.listening["SASL_PLAINTEXT"], False: started.bootstrap}
    started.close()
    assert not [line for line in started.logged() if line["level"] in ("error", "critical")]


def recorded() -> dict[str, list[str]]:
    """The lines of the transcript by title."""
    lines: dict[str, list[str]] = {}
    for line in TRANSCRIPT.read_text().splitlines():
        if line.startswith("  "):
            lines[next(reversed(lines))].append(line.strip())
        elif line and not line.startswith("#"):
            lines[line] = []
    return lines


@pytest.fixture(scope="module")
def written(request: pytest.FixtureRequest) -> Iterator[dict[str, list[str]] | None]:
    """Lines by title if ``--rewrite`` was passed, which the end of the run writes into the transcript."""
    if not request.config.getoption("--rewrite"):
        yield None
        return
    lines: dict[str, list[str]] = {}
    yield lines
    (comment, *_) = TRANSCRIPT.read_text().splitlines()
    kept = recorded() | lines
    cases = [f"\n{title}\n" + "".join(f"  {line}\n" for line in kept[title]) for title in CONVERSATIONS]
    TRANSCRIPT.write_text(f"{comment}\n" + "".join(cases))


def play(addresses: Addresses, title: str, expected: list[str] | None) -> list[str]:
    steps: list[Step] = CONVERSATIONS[title]
    wanted = None if expected is None else [line.rpartition(" -> ")[2] for line in expected]
    seen = steady_outcomes(addresses["plain listener" not in title], steps, wanted)
    return [f"{step.text} -> {each}" for step, each in zip(steps, seen, strict=True)]


def test_transcript_has_each_conversation() -> None:
    assert list(recorded()) == list(CONVERSATIONS)


@pytest.mark.parametrize("title", CASES)
def test_ottla_answers_clients_that_authenticate_as_in_the_transcript(ottla: Addresses, title: str) -> None:
    expected = recorded()[title]
    assert play(ottla, title, expected) == expected


@pytest.mark.java
@pytest.mark.target("kafka")
@pytest.mark.parametrize("title", CASES)
def test_kafka_answers_clients_that_authenticate_as_in_the_transcript(
    kafka: Addresses, written: dict[str, list[str]] | None, title: str
) -> None:
    if written is not None:
        written[title] = play(kafka, title, None)
        return
    expected = recorded()[title]
    assert play(kafka, title, expected) == expected


@pytest.mark.java
@pytest.mark.entry("SAS-08")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_unknown_user_of_scram_is_refused_one_message_later_than_in_kafka(
    ottla: Addresses, kafka: Addresses, mechanism: str
) -> None:
    """Kafka reveals which users exist: it refuses the first message of an unknown user."""

    def undelayed(addresses: Addresses, steps: list[Step]) -> list[str]:
        return [seen.removesuffix(DELAYED) for seen in outcomes(addresses[True], steps)]

    unknown, wrong = scram("mallory", "x", mechanism), scram("alice", "x", mechanism)
    assert undelayed(ottla, unknown) == undelayed(ottla, wrong) == undelayed(kafka, wrong)
    assert undelayed(kafka, unknown[:2])[1].startswith("SASL_AUTHENTICATION_FAILED")

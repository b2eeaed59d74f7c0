"""Questions about clients' quotas and users' credentials, for two brokers to be asked the same."""

from __future__ import annotations

from collections.abc import Callable

from ottla.protocol.messages import alter_client_quotas as quotas
from ottla.protocol.messages import alter_user_scram_credentials as scram
from ottla.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.scenarios.setting import Questions, Setting

EXACTLY, BY_DEFAULT, WHATEVER = range(3)
SHA_256, SHA_512 = 1, 2

Entity = tuple[tuple[str, str | None], ...]
Op = tuple[str, float, bool]


def _quota_requests(*entries: tuple[Entity, tuple[Op, ...]], validate_only: bool = False) -> quotas.AlterClientQuotasRequest:
    return quotas.AlterClientQuotasRequest(
        entries=[
            quotas.EntryData(
                entity=[quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[quotas.OpData(key=key, value=value, remove=remove) for key, value, remove in ops],
            )
            for entity, ops in entries
        ],
        validate_only=validate_only,
    )


RATE: Op = ("producer_byte_rate", 1000.0, False)


def _quotas_of(setting: Setting, version: int) -> list[tuple[str, Entity]]:
    name = setting.name(f"quota-{version}")
    return [
        ("a user", (("user", name),)),
        ("a client", (("client-id", name),)),
        ("a user's client", (("user", name), ("client-id", name))),
        ("any client of a user", (("user", name), ("client-id", None))),
        ("a user beside default clients", (("client-id", None), ("user", name + "2"))),
    ]


def altered_quotas(setting: Setting, version: int) -> Questions:
    name = setting.name(f"quota-{version}")
    user: Entity = (("user", name),)
    for label, entity in _quotas_of(setting, version):
        yield label, _quota_requests((entity, (RATE, ("request_percentage", 50.5, False))))
    yield "none", _quota_requests()
    yield "no changes", _quota_requests((user, ()))
    yield "only validated", _quota_requests((user, (RATE,)), validate_only=True)
    yield "taken back", _quota_requests((user, (("producer_byte_rate", 0.0, True),)))
    yield "taken back again", _quota_requests((user, (("producer_byte_rate", 0.0, True),)))
    yield "an entity twice", _quota_requests((user, (RATE,)), (user, (("consumer_byte_rate", 7.0, False),)))
    yield "one good, one bad", _quota_requests((user, (RATE,)), ((("user", name + "3"),), (("x", 1.0, False),)))
    yield "a key twice", _quota_requests((user, (RATE, ("producer_byte_rate", 5.0, False))))
    entities: list[tuple[str, Entity]] = [
        ("no entity", ()),
        ("an unknown type", (("group", "x"),)),
        ("a type without a name", (("", "x"),)),
        ("an empty user", (("user", ""),)),
        ("an empty client", (("client-id", ""),)),
        ("a type twice", (("user", "a"), ("user", "b"))),
        ("a user and an address", (("user", "a"), ("ip", "1.2.3.4"))),
        ("a client and an address", (("client-id", "a"), ("ip", "1.2.3.4"))),
        ("no address", (("ip", "not an address"),)),
        ("a user's rate for an address", (("ip", "127.0.0.1"),)),
        ("an unresolved address", (("ip", "no.such.host.invalid"),)),
    ]
    for label, entity in entities:
        yield label, _quota_requests((entity, (RATE,)))
    connections = "connection_creation_rate"
    for key, value in (
        ("x", 1.0),
        ("", 1.0),
        (connections, 1.0),
        ("producer_byte_rate", 0.0),
        ("producer_byte_rate", -1.0),
        ("producer_byte_rate", 1.5),
        ("producer_byte_rate", 2.0**63),
        ("producer_byte_rate", 1e300),
        ("producer_byte_rate", float("nan")),
        ("producer_byte_rate", float("inf")),
        ("consumer_byte_rate", 1e-9),
        ("consumer_byte_rate", 3.0000005),
        ("request_percentage", 1e300),
        ("request_percentage", 0.1),
        ("request_percentage", float("nan")),
        ("controller_mutation_rate", 2.5),
    ):
        yield f"{key}={value}", _quota_requests((user, ((key, value, False),)))
        yield f"{key}={value} of an address", _quota_requests(((("ip", "127.0.0.9"),), ((key, value, False),)))
        yield f"{key}={value} removed", _quota_requests((user, ((key, value, True),)))
    for value in (1.0, 2.5, 0.0, 2.0**40):
        yield f"connections of an address, {value}", _quota_requests(((("ip", "127.0.0.9"),), ((connections, value, False),)))
    yield "connections of any address", _quota_requests(((("ip", None),), ((connections, 1e300, False),)), validate_only=True)


def described_quotas(setting: Setting, version: int) -> Questions:
    name = setting.name(f"quota-described-{version}")
    pair: Entity = (("user", name), ("client-id", name))
    rates: tuple[Op, ...] = (RATE, ("request_percentage", 12.5, False))

    def ask(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
        asked = [ComponentData(entity_type=kind, match_type=how, match=what) for kind, how, what in components]
        return DescribeClientQuotasRequest(components=asked, strict=strict)

    given = _quota_requests(((("user", name),), (RATE,)), (pair, rates), ((("client-id", name),), rates))
    for kind, count in (("user", 2), ("client-id", 2)):
        setting.change(given, version, ask((kind, EXACTLY, name)), lambda answer, count=count: len(answer.entries) == count)  # type: ignore[misc]
    for strict in (False, True):
        how = ", strictly" if strict else ""
        yield f"a user{how}", ask(("user", EXACTLY, name), strict=strict)
        yield f"a client{how}", ask(("client-id", EXACTLY, name), strict=strict)
        yield f"a user's clients{how}", ask(("user", EXACTLY, name), ("client-id", WHATEVER, None), strict=strict)
        yield f"a user's default clients{how}", ask(("user", EXACTLY, name), ("client-id", BY_DEFAULT, None), strict=strict)
        yield f"nobody{how}", ask(("user", EXACTLY, setting.name("nobody")), strict=strict)
        yield f"an address{how}", ask(("ip", EXACTLY, "10.9.8.7"), strict=strict)
        yield f"an address and a user{how}", ask(("ip", EXACTLY, "10.9.8.7"), ("user", EXACTLY, name), strict=strict)
        yield f"an unknown type{how}", ask(("x", EXACTLY, "y"), strict=strict)
        yield f"no type{how}", ask(("", EXACTLY, "y"), strict=strict)
        yield f"a type twice{how}", ask(("user", EXACTLY, name), ("user", EXACTLY, "z"), strict=strict)
        yield f"an empty name{how}", ask(("user", EXACTLY, ""), strict=strict)
        yield f"null{how}", ask(("user", EXACTLY, None), strict=strict)
        yield f"whatever, with a name{how}", ask(("user", WHATEVER, name), strict=strict)
        yield f"the default, with a name{how}", ask(("user", BY_DEFAULT, name), strict=strict)
        yield f"an unknown way{how}", ask(("user", 7, name), strict=strict)
    yield "nothing, strictly", ask(strict=True)


def altered_credentials(setting: Setting, version: int) -> Questions:
    user, other = setting.name("user"), setting.name("other")
    salt, password = b"salt" * 4, b"p" * 32

    def set_to(
        name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = salt, salted_password: bytes = password
    ) -> scram.ScramCredentialUpsertion:
        return scram.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted_password
        )

    def drop(name: str, mechanism: int = SHA_256) -> scram.ScramCredentialDeletion:
        return scram.ScramCredentialDeletion(name=name, mechanism=mechanism)

    def ask(*changes: scram.ScramCredentialUpsertion | scram.ScramCredentialDeletion) -> scram.AlterUserScramCredentialsRequest:
        return scram.AlterUserScramCredentialsRequest(
            deletions=[c for c in changes if isinstance(c, scram.ScramCredentialDeletion)],
            upsertions=[c for c in changes if isinstance(c, scram.ScramCredentialUpsertion)],
        )

    yield "nothing", ask()
    yield "taken from nobody", ask(drop(user))
    yield "set", ask(set_to(user))
    yield "set again", ask(set_to(user, iterations=5000))
    yield "another mechanism", ask(set_to(user, SHA_512, salted_password=b"p" * 64))
    yield "set and taken back together", ask(set_to(user), drop(user))
    yield "set twice", ask(set_to(user), set_to(user))
    yield "taken twice", ask(drop(user), drop(user))
    yield "set twice, by two mechanisms", ask(set_to(other), set_to(other, SHA_512))
    yield "two users", ask(set_to(user), set_to(other))
    yield "one good, one bad", ask(set_to(user), set_to(other, iterations=1))
    for iterations in (-1, 0, 4095, 16384, 16385):
        yield f"{iterations} iterations", ask(set_to(other, iterations=iterations))
    for mechanism in (-1, 0, 3):
        yield f"mechanism {mechanism}", ask(set_to(other, mechanism))
        yield f"mechanism {mechanism}, taken back", ask(drop(other, mechanism))
    yield "no salt", ask(set_to(other, salt=b""))
    yield "no password", ask(set_to(other, salted_password=b""))
    yield "a short password", ask(set_to(other, salted_password=b"x"))
    yield "no name", ask(set_to(""))
    yield "no name, taken back", ask(drop(""))
    yield "taken back", ask(drop(user), drop(other))
    yield "taken back again", ask(drop(user), drop(other))


def described_credentials(setting: Setting, version: int) -> Questions:
    name = setting.name("described-user")
    upsertions = [
        scram.ScramCredentialUpsertion(name=name, mechanism=how, iterations=4096 + how, salt=b"s" * 8, salted_password=b"p" * size)
        for how, size in ((SHA_512, 64), (SHA_256, 32))
    ]

    def ask(*names: str) -> DescribeUserScramCredentialsRequest:
        return DescribeUserScramCredentialsRequest(users=[UserName(name=asked) for asked in names])

    for count, upsertion in enumerate(upsertions, 1):
        given = scram.AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        setting.change(given, version, ask(name), lambda answer, count=count: len(answer.results[0].credential_infos) == count)  # type: ignore[misc]

    yield "a user", ask(name)
    yield "nobody", ask(setting.name("nobody"))
    yield "two", ask(name, setting.name("nobody"))
    yield "a user twice", ask(name, name)
    yield "no name", ask("")


ACCESS_QUESTIONS: dict[str, Callable[[Setting, int], Questions]] = {
    "AlterClientQuotas": altered_quotas,
    "DescribeClientQuotas": described_quotas,
    "AlterUserScramCredentials": altered_credentials,
    "DescribeUserScramCredentials": described_credentials,
}

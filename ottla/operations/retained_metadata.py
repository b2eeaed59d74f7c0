"""Metadata that an adoption imports with the topics: quotas, credentials, tokens, ACLs, configs of groups and client metrics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ottla.coordinator.metadata.acls import MAX_ACLS, Acls
from ottla.coordinator.metadata.client_quotas import MAX_ENTITIES, ClientQuotas
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, ClusterState
from ottla.coordinator.metadata.config_totals import MAX_KEPT, MAX_KEPT_CHARACTERS, characters_of
from ottla.coordinator.metadata.delegation_tokens import MAX_TOKENS, DelegationTokens
from ottla.coordinator.metadata.scram_credentials import MAX_USERS, ScramCredentials
from ottla.security.acl.bindings import AclBinding
from ottla.storage.identity import DirectoryError

CONFIGURED = {GROUP_RESOURCE: "configs of groups", CLIENT_METRICS_RESOURCE: "subscriptions to client metrics"}
NAMED_IN_A_NOTE = 3
"""Maximum number of entries that a note of the adoption names."""


@dataclass(slots=True)
class KeptEntries:
    """The entries to import. ``configs`` are by type and name of the resource."""

    client_quotas: ClientQuotas = field(default_factory=ClientQuotas)
    credentials: ScramCredentials = field(default_factory=ScramCredentials)
    tokens: DelegationTokens = field(default_factory=DelegationTokens)
    acls: Acls = field(default_factory=Acls)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)

    def by_kind(self) -> dict[str, Collection[object]]:
        """Return the names of the entries, by the label that notes use for their kind."""
        kinds: dict[str, Collection[object]] = {
            "quotas of clients and users": self.client_quotas.by_entity,
            "credentials of users": self.credentials.by_user,
            "delegation tokens": self.tokens.by_id,
            "ACLs": dict.fromkeys(self.acls.by_id.values()),
        }
        return kinds | {words: [name for of, name in self.configs if of == kind] for kind, words in CONFIGURED.items()}

    def counts(self) -> str:
        """Format the number of entries of each kind; empty without entries."""
        return ", ".join(f"{words}: {len(names)}" for words, names in self.by_kind().items() if names)


def kept_by(state: ClusterState) -> KeptEntries:
    configs = {resource: of_one for resource, of_one in state.configs.items() if resource[0] in CONFIGURED}
    return KeptEntries(state.client_quotas, state.credentials, state.tokens, state.acls, configs)


def notes_of_source(state: ClusterState, *, is_taken: bool) -> list[str]:
    """Return notes on entries that are imported, that are not imported with single topics, and that are never imported."""
    counts, notes = kept_by(state).counts(), []
    if counts:
        notes.append(f"also imported: {counts}" if is_taken else f"not imported, because --topic was given: {counts}")
    brokers = sum(kind == BROKER_RESOURCE for kind, _ in state.configs)
    if brokers:
        notes.append(f"broker configs are not imported ({brokers} brokers have some); set them again where needed")
    return notes


def keep_own(kept: KeptEntries, state: ClusterState, target: str) -> list[str]:
    """Remove entries from ``kept`` that ``target`` has as well. Returns a note for each kind of such entries.

    Raises `DirectoryError` if the remaining entries exceed the target's limits.
    """
    own, notes = kept_by(state), []
    for (words, names), owned in zip(kept.by_kind().items(), own.by_kind().values(), strict=True):
        both = [name for name in names if name in owned]
        if both:
            shown = ", ".join(map(_shown, both[:NAMED_IN_A_NOTE])) + (", ..." if len(both) > NAMED_IN_A_NOTE else "")
            notes.append(f"{words}: {target} keeps its own for {len(both)} that exist in both ({shown})")
    for entity in own.client_quotas.by_entity:
        kept.client_quotas.by_entity.pop(entity, None)
    for user in own.credentials.by_user:
        kept.credentials.by_user.pop(user, None)
    for token_id in own.tokens.by_id:
        kept.tokens.by_id.pop(token_id, None)
    kept.acls.drop_known(own.acls)
    for resource in own.configs:
        kept.configs.pop(resource, None)
    limits = (MAX_ENTITIES, MAX_USERS, MAX_TOKENS, MAX_ACLS, MAX_KEPT, MAX_KEPT)
    for (words, names), owned, limit in zip(kept.by_kind().items(), own.by_kind().values(), limits, strict=True):
        _check(words, len(names) + len(owned), limit, target)
    for kind, words in CONFIGURED.items():
        both_configs = kept.configs | own.configs
        characters = sum(characters_of(name, configs) for (of, name), configs in both_configs.items() if of == kind)
        _check(f"characters in {words}", characters, MAX_KEPT_CHARACTERS, target)
    return notes


def _check(words: str, count: int, limit: int, target: str) -> None:
    if count > limit:
        raise DirectoryError(
            f"{target} would have {count:,} {words}, but at most {limit:,} are allowed; adopt single topics with --topic"
        )


def _shown(name: object) -> str:
    if isinstance(name, AclBinding):
        return name.summary
    if isinstance(name, tuple):
        return " ".join(f"{kind} {part or '(default)'}" for kind, part in name)
    return str(name)

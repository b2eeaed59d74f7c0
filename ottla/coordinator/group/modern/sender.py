"""Checks of the member that sent a heartbeat, with the errors of Kafka's GroupMetadataManager."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar

from ottla.coordinator.group.modern.group import GroupWithMembers, GroupWithStaticMembers
from ottla.protocol.errors import Code, KafkaError


class Member(Protocol):
    @property
    def member_id(self) -> str: ...


M = TypeVar("M", bound=Member)


class TypedGroup(GroupWithMembers[Any], Protocol):
    """A group whose type, ``type_name``, is named in error messages: consumer, streams or share."""

    type_name: ClassVar[str]


class TypedGroupWithStaticMembers(TypedGroup, GroupWithStaticMembers[Any], Protocol): ...


def check_size(group: TypedGroup, max_size: int, *, is_known: bool) -> None:
    """Raise GROUP_MAX_SIZE_REACHED if a new member would exceed the maximum size."""
    if not is_known and len(group.members) >= max_size:
        message = f"The {group.type_name} group has reached its maximum capacity of {max_size} members."
        raise KafkaError(Code.GROUP_MAX_SIZE_REACHED, message)


def is_known_sender(group: TypedGroupWithStaticMembers, member_id: str, instance_id: str | None) -> bool:
    """Whether the group has the sender as a member, or a static member that the sender may replace."""
    return member_id in group.members or instance_id in group.static_members


def wrong_epoch(group: TypedGroup, received: int, known: int, reason: str = "") -> KafkaError:
    """Return FENCED_MEMBER_EPOCH. In the message, ``reason`` follows the two epochs."""
    size = "greater" if received > known else "smaller"
    message = (
        f"The {group.type_name} group member has a {size} member epoch ({received}) than the one known by the group coordinator"
        f" ({known}){reason}. The member must abandon all its partitions and rejoin."
    )
    return KafkaError(Code.FENCED_MEMBER_EPOCH, message)


def known_static(static: M | None, member_id: str, instance_id: str | None) -> M:
    """Return the static member. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has replaced it."""
    if static is None:
        raise KafkaError(Code.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {static.member_id}."
        raise KafkaError(Code.FENCED_INSTANCE_ID, message)
    return static


def unreleased(static: Member, member_id: str, instance_id: str) -> KafkaError:
    """Return UNRELEASED_INSTANCE_ID, because the static member with this instance id has not left."""
    message = (
        f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is owned by"
        f" {static.member_id} member."
    )
    return KafkaError(Code.UNRELEASED_INSTANCE_ID, message)

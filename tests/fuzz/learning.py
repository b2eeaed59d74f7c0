"""Records ids, producer identities, members and sequences from responses, for use in later requests."""

from __future__ import annotations

from typing import Any

from ottla.protocol.records import HEADER_BYTES, read_header
from tests.fuzz.exchange import Exchange
from tests.fuzz.vocabulary import Member, Producer, Vocabulary


class Learner:
    """Adds names and ids in responses to the `Vocabulary` of requests."""

    def __init__(self, words: Vocabulary) -> None:
        self._words = words

    def learn(self, exchange: Exchange) -> None:
        learn = _BY_KEY.get(exchange.key)
        if learn is not None and exchange.request is not None:
            learn(self._words, exchange.request, exchange.response, exchange.version)


def _metadata(words: Vocabulary, request: Any, response: Any, version: int) -> None:
    for topic in response.topics:
        if topic.name is not None and any(topic.topic_id):
            words.topic_ids[topic.name] = topic.topic_id


def _created(words: Vocabulary, request: Any, response: Any, version: int) -> None:
    for topic in response.topics:
        if topic.error_code == 0 and any(topic.topic_id):
            words.topic_ids[topic.name] = topic.topic_id


def _initialised(words: Vocabulary, request: Any, response: Any, version: int) -> None:
    if response.error_code == 0:
        words.knows_identity(request.transactional_id, response.producer_id, response.producer_epoch)


def _ended(words: Vocabulary, request: Any, response: Any, version: int) -> None:
    if response.error_code == 0 and version >= 5:
        words.knows_identity(request.transactional_id, response.producer_id, response.producer_epoch)


def _produced(words: Vocabulary, request: Any, response: Any, version: int) -> None:
    wrong = {(t.name, t.topic_id, p.index) for t in response.responses for p in t.partition_responses if p.error_code}
    names = {topic_id: name for name, topic_id in words.topic_ids.items()}
    for topic in request.topic_data:
        for part in topic.partition_data:
            records = part.records
            if records is None or len(records) < HEADER_BYTES or (topic.name, topic.topic_id, part.index) in wrong:
                continue
            header = read_header(records)
            name = topic.name if version < 13 else names.get(topic.topic_id, "")
            for producer in words.producers:
                if producer.producer_id == header.producer_id >= 0 and producer.epoch == header.producer_epoch:
                    _advance(producer, name, part.index, header.last_sequence)


def _advance(producer: Producer, topic: str, partition: int, last_sequence: int) -> None:
    if last_sequence >= 0:
        producer.sequences[topic, partition] = (last_sequence + 1) & 0x7FFFFFFF


def _member(words: Vocabulary, request: Any) -> Member | None:
    mine = [m for m in words.members if m.group_id == request.group_id and m.instance_id == request.group_instance_id]
    same = [m for m in mine if m.member_id == request.member_id]
    return (same or mine or [None])[0]


def _joined(words: Vocabulary, request: Any, response: Any, version: int) -> None:
    member = _member(words, request)
    if member is None:
        return
    if response.error_code in (0, 79):
        member.member_id = response.member_id
    if response.error_code == 0:
        member.generation = response.generation_id
        member.leads = response.leader == response.member_id
        member.all_members = [m.member_id for m in response.members]
    elif response.error_code == 25:
        member.member_id = ""


def _fetched(words: Vocabulary, request: Any, response: Any, version: int) -> None:
    if version >= 7:
        words.knows_session(response.session_id)


_BY_KEY = {0: _produced, 1: _fetched, 3: _metadata, 11: _joined, 19: _created, 22: _initialised, 26: _ended}

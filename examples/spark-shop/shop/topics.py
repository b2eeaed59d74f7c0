"""Creates the topics, and finds missing topics."""

from __future__ import annotations

from ottla.client import KafkaClient
from ottla.client.security.client_config import Connecting
from shop.schemas import PRODUCTS, TOPICS
from shop.settings import Settings


def client(settings: Settings) -> KafkaClient:
    return KafkaClient(settings.bootstrap, connecting=Connecting.parse(settings.connection))


def missing(cluster: KafkaClient) -> list[str]:
    known = {listing.name for listing in cluster.topics()}
    return [topic for topic in (*TOPICS, PRODUCTS) if topic not in known]


def create(settings: Settings) -> list[str]:
    """Create the missing topics and return their names. Raises `ClientError`."""
    with client(settings) as cluster:
        new = missing(cluster)
        for topic in new:
            if topic == PRODUCTS:
                cluster.create_topic(topic, 1, {"cleanup.policy": "compact"})
            else:
                # The timestamps of the generated records are old, so a retention time would delete them at once.
                cluster.create_topic(topic, settings.partitions, {"retention.ms": "-1"})
    return new

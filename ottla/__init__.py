"""ottla: a small broker that every stock Kafka client believes to be Apache Kafka."""

from ottla.handle import Broker, BrokerFailed

__all__ = ["Broker", "BrokerFailed", "__version__"]
__version__ = "0.1.0"

"""The entry points of the container image, which accepts the variables and paths of Kafka's images (docs/containers.md).

- `image`: converts the variables of Kafka's images to settings, and starts a broker with them.
- `secrets`: converts the variables with which apache/kafka configures TLS and SASL.
"""

"""The entry points of the container image, which accepts the variables and paths of Kafka's images (docs/containers.md).

- `image`: converts the variables of Kafka's images to settings, and starts a broker with them.
- `scram_users`: the users that ``kafka-storage format --add-scram`` gives to a new directory.
- `secrets`: converts the variables with which apache/kafka configures TLS and SASL.
- `volumes`: chooses the log directory by the mounted volume.
- `kafka_tools`: runs the calls of Kafka's command line tools that health checks make, with ottla's commands.
- `ports`: tests whether a port is open.
- `links`: creates a link for each tool in the image.
"""

"""What the container image runs, where Kafka's images are expected: their variables, paths and log lines (docs/containers.md).

- `image`: reads the variables of the images and starts a broker with the settings that they mean.
"""

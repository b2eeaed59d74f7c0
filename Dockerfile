# A broker in one small image: docker compose up, or docker run -p 127.0.0.1:9092:9092.
# Testcontainers start it as apache/kafka or confluentinc/cp-kafka: docs/containers.md.
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[registry,security]"

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels "ottla[registry,security]" && rm -rf /wheels \
    && useradd --create-home --uid 1000 ottla \
    && mkdir -p /data /var/lib/kafka/data /tmp/kraft-combined-logs /tmp/kafka-logs /bitnami/kafka/data /etc/kafka /mnt/shared/config \
    && chown ottla /data /var/lib/kafka /var/lib/kafka/data /tmp/kraft-combined-logs /tmp/kafka-logs \
        /bitnami /bitnami/kafka /bitnami/kafka/data /etc/kafka \
    && python3 -m ottla.container link-tools
# Those who start Kafka's images rewrite these files before they run them, so the user owns them and their directories.
COPY --chown=ottla --chmod=755 container/kafka /etc/kafka/docker
COPY --chown=ottla --chmod=755 container/confluent /etc/confluent/docker
COPY --chmod=755 container/bin /usr/local/bin
USER ottla
WORKDIR /home/ottla
VOLUME /data
EXPOSE 9092 8081
ENV OTTLA_READY_FILE=/tmp/ottla-ready.json
# Asks the address in the ready file: where the broker listens, whatever it was told.
HEALTHCHECK --interval=2s --timeout=3s --retries=15 CMD ["ottla", "health"]
# No entry point, so that any command is run as it is given: sh -c ..., or ottla topic list.
CMD ["/etc/kafka/docker/run"]

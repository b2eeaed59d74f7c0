# A broker in one small image: docker compose up, or docker run -p 127.0.0.1:9092:9092.
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels ottla && rm -rf /wheels \
    && useradd --create-home --uid 1000 ottla && mkdir /data && chown ottla /data
USER ottla
VOLUME /data
EXPOSE 9092
ENV KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092 \
    KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092 \
    KAFKA_LOG_DIRS=/data \
    OTTLA_READY_FILE=/tmp/ottla-ready.json
# Asks the address in the ready file: where the broker listens, whatever it was told.
HEALTHCHECK --interval=2s --timeout=3s --retries=15 CMD ["ottla", "health"]
ENTRYPOINT ["ottla"]
CMD ["serve"]

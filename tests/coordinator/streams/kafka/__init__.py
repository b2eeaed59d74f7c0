"""Questions to Apache Kafka's own classes, and what those of 4.4.0 answered."""

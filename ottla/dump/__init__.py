"""What the files of a broker say, ottla's or Apache Kafka's: read only, piece by piece, also of a broker that runs."""

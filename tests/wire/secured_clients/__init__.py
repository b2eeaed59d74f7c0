"""Programs that commit a transaction and read it in a group, with the client configuration of a `Broker` object, as
docs/security-in-tests.md shows them.

Their argument is the configuration: JSON, or a properties file for Java. The configuration has the transport and the mechanism of
SASL. The programs of clients that authenticate again (KIP-368) also send lines of their input, with a further argument "lines".
"""

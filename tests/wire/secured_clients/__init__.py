"""Programs that commit a transaction and read it in a group, with the client configuration of a `Broker` object, as
docs/security-in-tests.md shows them.

Their argument is the configuration: JSON, or a properties file for Java.
"""

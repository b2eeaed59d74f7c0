"""Security of the brokers of `ottla.Broker` and `ottla.Cluster`: certificates, users, ACLs, and the configurations of clients.

- `acls`: ACLs as values, and the ACLs of a running broker.
- `authority`: a certificate authority in memory, and the certificates that it issues.
- `certificate_reload`: makes a running broker load its key store again.
- `client_access`: the methods of `Broker` and `Cluster` that return what clients need to connect.
- `client_configs`: the settings with which each client library connects.
- `delegation_token`: the delegation token that a handle has created for a client.
- `tokens`: unsecured tokens for OAUTHBEARER.
- `broker_security`: the security of one `Broker` or `Cluster`: settings of its brokers, users, and files.
"""

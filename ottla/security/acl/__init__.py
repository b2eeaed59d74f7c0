"""Authorisation: who may do what on which resource (KIP-11, KIP-290, KIP-801).

- `acl_index`: the ACLs of a cluster, by the actions that they decide about.
- `bindings`: an ACL, a filter of ACLs, and the text forms that Kafka logs.
- `codes`: resource types, pattern types, operations and permissions, with Kafka's codes and names.
- `hosts`: addresses of clients in the form that ACLs use, and host patterns of ACLs.
- `principals`: the identity of a client.
- `standard_authorizer`: decides whether a principal may perform an action, and names the rule that decided.
"""

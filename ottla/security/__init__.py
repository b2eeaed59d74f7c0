"""Security as pure decisions: nothing here reads a clock, draws a random number or opens anything.

- `acl`: principals, ACLs and the authorizer that decides by them.
"""

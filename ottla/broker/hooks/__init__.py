"""Interfaces through which `ottla.control` observes and changes requests and transactions.

- `interception`: the interface by which tests inject faults into requests and transactions.
- `transaction_history`: the interface of the listener for events of transactional ids that no log contains: requests, errors,
  fencings.
"""

"""Ports through which `ottla.control` observes and changes requests and transactions. Without an implementation each costs one test
for None.

- `interception`: the port by which tests inject faults into requests and transactions.
- `transaction_history`: the port by which somebody learns of each transactional id what no log has: who has asked, what was
  refused, who was fenced.
"""

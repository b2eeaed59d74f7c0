"""The jobs. Each job's module has a `Job`, and a function that makes its rows for streams and for static frames.

- `job`: the class `Job`.
- `distinct`: orders, each once.
- `invoices`: orders with their products, into two sinks.
- `revenue`: invoices summed by window and category.
- `settlements`: orders joined with payments.
"""

"""The jobs. Each module has a function that makes the rows of a job, for streams and for static frames, and a `Job`.

- `job`: what a job is.
- `distinct`: orders, each once.
- `invoices`: orders with their products, into two sinks.
- `revenue`: invoices summed by window and category.
- `settlements`: orders joined with payments.
"""

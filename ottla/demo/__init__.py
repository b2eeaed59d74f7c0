"""The demonstration: a shop in which purchases become invoices and shipments exactly once, in spite of failures."""

"""What people look at: the inbox, orders found by any filters, what failed and what was used."""

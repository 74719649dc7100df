"""Documents as rows: reading, changing, showing them."""

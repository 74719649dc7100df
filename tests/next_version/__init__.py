"""A version after this one, which only tests have: it shows that stored orders and backups reach the next version."""

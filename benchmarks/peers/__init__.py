"""The same turn in other frameworks, each in its own environment."""

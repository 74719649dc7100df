"""Other frameworks at the same turn, each in an environment of its own."""

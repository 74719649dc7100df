"""Agent files: parsing, checks and merging of their scopes. No I/O."""

"""One file per wire form and per provider that differs from its form."""

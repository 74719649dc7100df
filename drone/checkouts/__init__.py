"""Git addresses as workspaces: fetched into a mirror, checked out for each session."""

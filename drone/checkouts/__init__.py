"""Git addresses as workspaces: each is fetched into a mirror and checked out separately for each session."""

"""What the journal says of each agent: the fold, its tree, its progress."""

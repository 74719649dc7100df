"""How people and siblings reach an agent at work: controls, the inbox, approvals, who waits for whom."""

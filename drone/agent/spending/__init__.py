"""What an agent may still use: the turn's budget and each agent's allowance."""

"""The agent runtime: the loop, its transcript, budget, subagents. No provider, no broker."""

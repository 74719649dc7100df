"""This room is for the agent runtime: the loop, its transcript, budget, subagents. No provider, no broker."""

"""Agents that run below an agent: hired, run side by side or in a chain, continued, told of."""

"""This room is for what people ask of running agents, and how it reaches them."""

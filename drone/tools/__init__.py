"""This room is for tools: sets of functions a model may call, and wrappers of the same shape around them."""

"""Tools: sets of functions a model may call, and wrappers of the same shape around them."""

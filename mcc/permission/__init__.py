"""Permission: whether a tool call is allowed, asked for or denied. No I/O."""

"""The way out of the sandbox: a proxy in a process of its own, which alone decides what programs reach."""

"""The walls around what tools touch: a workspace's path rule, and the sandbox that programs run in."""

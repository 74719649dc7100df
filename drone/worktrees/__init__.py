"""Worktrees of subagents: made of what their parent sees, saved on a ref, merged back, deleted once nothing is lost."""

"""Worktrees of subagents: made from their parent's workspace, saved on a ref, merged back, deleted when safe."""

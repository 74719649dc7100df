"""The walls around tools: the path rule for files of a workspace, and the sandbox for programs."""

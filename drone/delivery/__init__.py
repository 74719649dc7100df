"""Work that goes back to a git address: committed, pushed to a branch, and offered as a request at a forge."""

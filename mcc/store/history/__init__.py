"""The history of sessions: what was said in their orders, found again by words."""

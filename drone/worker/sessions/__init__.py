"""What the turns of a session are shown, and what they leave to it."""

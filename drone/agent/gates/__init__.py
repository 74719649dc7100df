"""What an agent hands in, and who decides whether it is good."""

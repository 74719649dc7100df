"""What people ask of running agents, and how it reaches them."""

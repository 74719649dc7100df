"""What a workspace held before an order changed it: checkpoints, kept on the host, and the way back to them."""

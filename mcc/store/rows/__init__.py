"""Reading and writing single rows of orders, texts, controls and grants."""

"""Writes the table of known models from the list of genai-prices and the facts beside this file."""

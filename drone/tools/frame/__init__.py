"""What every tool is made of: declaration, schema, wrappers, display of text."""

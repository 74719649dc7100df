"""What we claim about speed: figures that anyone can print again."""

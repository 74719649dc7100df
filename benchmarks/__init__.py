"""This room is for what we claim about speed: figures that anyone can print again."""

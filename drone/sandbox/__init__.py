"""This room is for the walls around what tools touch: path rules of a workspace."""

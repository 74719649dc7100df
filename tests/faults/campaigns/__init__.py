"""This room is for campaigns: one function each, which does one class of harm to a family while it does orders."""

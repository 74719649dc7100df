"""This room is for what holds in every test: properties are judged by what they say, not by how long they take."""

from hypothesis import settings

settings.register_profile("mcc", deadline=None)
settings.load_profile("mcc")

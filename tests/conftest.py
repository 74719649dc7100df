"""What holds in every test: properties are judged by what they say, and no test reads its user's own configuration."""

import os

from hypothesis import settings

settings.register_profile("mcc", deadline=None)
settings.load_profile("mcc")

os.environ["XDG_CONFIG_HOME"] = "/nonexistent"

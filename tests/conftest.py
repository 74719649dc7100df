"""What holds in every test: properties are judged by what they say, and no test reads its user's own configuration."""

import os
import signal

from hypothesis import settings

settings.register_profile("mcc", deadline=None)
settings.load_profile("mcc")

# Below a file: nobody can make it, root neither, and so no test finds there what another one left.
os.environ["XDG_CONFIG_HOME"] = "/dev/null/config"
for name in [name for name in os.environ if name.startswith(("MCC_", "DRONE_"))]:
    del os.environ[name]

# Under nohup, or behind an & in a script, it is ignored; programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

"""The command `mcc`. Modules here import at their top only what `mcc --help` needs."""

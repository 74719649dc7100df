"""This room is for the words that several findings share."""

from mcc.store.examined import SeenDrone

FIX = "mcc doctor --fix"


def seconds(value: float) -> str:
    """A span as people say it, at most two units."""
    if value < 120:
        return f"{max(value, 0):.0f} s"
    minutes = round(value / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = round(value / 3600)
    return f"{hours} h" if hours < 72 else f"{round(hours / 24)} days"


def who(drone: SeenDrone) -> str:
    return f"{drone.name} (pid {drone.pid} on {drone.host})"


def kill(drone: SeenDrone, signal: str = "TERM") -> str:
    return f"kill -{signal} {drone.pid} on {drone.host}"

"""Durations and ordinal numbers in words."""


def seconds(value: float) -> str:
    if value < 59.95:
        return f"{max(value, 0):.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def wait(value: float) -> str:
    """A planned wait, in seconds: without trailing zeros, and to a tenth when it is short."""
    return f"{round(value, 1):g} s" if value < 59.95 else seconds(value)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, … 11th, … 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"

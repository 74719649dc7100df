"""This room is for figures as people read them: seconds, tokens, dollars, times ago."""

from mcc.contracts.usage import Usage


def seconds(value: float) -> str:
    if value < 59.95:
        return f"{max(value, 0):.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def wait(value: float) -> str:
    """Seconds that were announced, exactly as long as they are few."""
    return f"{value:g} s" if value < 59.95 else seconds(value)


def tokens(usage: Usage) -> str:
    return f"{usage.total_tokens:,} tokens"


def cost(usage: Usage) -> str:
    """US dollars; unknown when the price of any part is."""
    if usage.cost_usd is None:
        return "cost unknown"
    return f"${usage.cost_usd:.4f}" if usage.cost_usd else "$0"


def spent(usage: Usage) -> str:
    return f"{tokens(usage)} · {cost(usage)}"


def bytes_(value: int) -> str:
    size = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"

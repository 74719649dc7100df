"""Who did something, in words."""


def placed_by(principal: str | None, door: str | None, token: str | None = None) -> str | None:
    """As `person:5, by cli with the token "laptop"`; None where it is not known."""
    if principal is None:
        return None
    way = f", by {door}" if door else ""
    return f"{principal}{way}" + (f' with the token "{token}"' if token is not None else "")


def on_behalf(by: str | None) -> str:
    """What follows an action: " by person:5"; nothing for one of an agent, or of nobody."""
    return f" by {by}" if by not in (None, "parent") else ""

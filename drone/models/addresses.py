"""This room is for the addresses of providers: which may be asked, and which of them may be sent a key."""

import ipaddress
from urllib.parse import SplitResult, urlsplit


def host_of(base_url: str) -> str:
    """Host and port, without what might be a secret."""
    parts = _split(base_url)
    if parts is None or not parts.hostname:
        return "an unreadable address"
    return parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"


def problem_with(base_url: str) -> str | None:
    """Why models at this address cannot be asked; None when they can."""
    parts = _split(base_url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return f"its base_url {base_url!r} is not an address; write https://host/path"
    if parts.username or parts.password:
        return "its base_url holds a user name or password; name the variable of the key in api_key_env instead"
    if parts.query or parts.fragment:
        return "its base_url must end with the path, without ? or #"
    if parts.scheme == "http" and not is_on_this_machine(parts.hostname):
        return f"its base_url is http and {parts.hostname} is not this machine; use https"
    return None


def _split(base_url: str) -> SplitResult | None:
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def is_on_this_machine(host: str) -> bool:
    """Whether the name is that of the loopback, without asking anybody."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Sign-in by OpenID Connect: what a provider of identities says of itself, the way there and back, and the checks of
what it signed. Its libraries are the extra `oidc`.
"""

from importlib.util import find_spec

PACKAGES = ("authlib", "joserfc")

MISSING = f"[oidc] needs {' and '.join(PACKAGES)}, which are not installed: install the extra `oidc`"


def is_installed() -> bool:
    """Whether the packages of the extra are there."""
    return all(find_spec(package) is not None for package in PACKAGES)

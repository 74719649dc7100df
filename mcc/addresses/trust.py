"""Whom this process trusts as a server: the public authorities, and those of the system or of `SSL_CERT_FILE`."""

import ssl
from functools import cache

import certifi


@cache
def trusted_servers() -> ssl.SSLContext:
    """The context of connections to other hosts. Cached: reading the certificates takes longer than many an answer."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context

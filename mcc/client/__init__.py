"""The Python client of a control service: `MCC` for ordinary code, `AsyncMCC` for an event loop.

Importing it is cheap: httpx is loaded when the first client is made.
"""

from mcc.client.asynchronous import AsyncMCC
from mcc.client.errors import ClientError, Conflict, Invalid, NotFound, NoToken, Refused, Unauthorized, Unreachable
from mcc.client.synchronous import MCC

__all__ = [
    "MCC",
    "AsyncMCC",
    "ClientError",
    "Conflict",
    "Invalid",
    "NoToken",
    "NotFound",
    "Refused",
    "Unauthorized",
    "Unreachable",
]

"""Calling a control service from Python: `MCC` for ordinary code, `AsyncMCC` for an event loop.

Importing it is cheap; what talks HTTP is loaded with the first client that is made.
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

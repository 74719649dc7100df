"""This room is for what can go wrong in a store, sorted by who must act.

StoreError
├── StoreUnavailable      try again: the database is away, locked or full
├── Fenced                stop: another epoch holds the order; write nothing more
├── ControlsPending       read the controls again, then finish
├── BadEntry              fail the order as internal: the database refuses what it wants to write
└── Refused               tell the caller
    ├── UnknownOrder, UnknownSession, BadCursor
    ├── IdempotencyConflict, SessionBusy
    └── OrderIsFinal
"""


class StoreError(Exception):
    """Anything that a store raises on purpose; the message is a sentence for people."""


class StoreUnavailable(StoreError):
    pass


class Fenced(StoreError):
    pass


class ControlsPending(StoreError):
    pass


class BadEntry(StoreError):
    pass


class Refused(StoreError):
    pass


class UnknownOrder(Refused):
    pass


class UnknownSession(Refused):
    pass


class BadCursor(Refused):
    pass


class IdempotencyConflict(Refused):
    pass


class SessionBusy(Refused):
    pass


class OrderIsFinal(Refused):
    pass

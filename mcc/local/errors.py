"""Errors of starting or keeping a family of processes; each message is a sentence that says what to do.

FamilyError
├── NoRedis              there is no Redis to be found, or the configured one does not answer
│   └── UnfitRedis       the configured one answers, and lacks something that the operator must give it
├── FamilyRunning        another family holds the data directory
├── PortTaken            another program listens on the port
├── UnusableDirectory    the data directory cannot be made or written
├── UnusableDatabase     the database cannot be opened or upgraded
├── StartFailed          a child ended, or was not ready in time
└── DoesNotEnd           a family that was told to end is still there
"""


class FamilyError(Exception):
    """Base of all errors here; its message is a sentence for people."""


class NoRedis(FamilyError):
    pass


class UnfitRedis(NoRedis):
    pass


class FamilyRunning(FamilyError):
    """`url` is the address of the family that runs, when it is known."""

    def __init__(self, message: str, url: str | None = None) -> None:
        super().__init__(message)
        self.url = url


class PortTaken(FamilyError):
    pass


class UnusableDirectory(FamilyError):
    pass


class UnusableDatabase(FamilyError):
    pass


class StartFailed(FamilyError):
    pass


class DoesNotEnd(FamilyError):
    pass

"""Errors of calling a service.

ClientError
├── Unreachable       no control service answers at the address: start it, or correct the address
├── NoToken           no token was given or found
└── Refused           the service answered with an error: `status` and `detail` are from its answer
    ├── Unauthorized  401, 403: use another token
    ├── NotFound      404: no such order, session, record, document or blueprint
    ├── Conflict      409: the order is final, the session busy, the idempotency key used, a node changed meanwhile
    └── Invalid       400, 413, 415, 422: change the request; `errors` names the fields
"""

from collections.abc import Mapping, Sequence
from typing import Any


class ClientError(Exception):
    """Base of all errors here; its message is a sentence for people."""


class Unreachable(ClientError):
    pass


class NoToken(ClientError):
    pass


class Refused(ClientError):
    """The service's error. `problem`: its whole JSON answer, with members of its own, such as a document's version."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: Sequence[dict[str, Any]] = (),
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.problem = problem or {}


class Unauthorized(Refused):
    pass


class NotFound(Refused):
    pass


class Conflict(Refused):
    pass


class Invalid(Refused):
    pass


KINDS: dict[int, type[Refused]] = {
    400: Invalid,
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
}


def refusal(status: int, body: object) -> Refused:
    """The error for an answer with this status; `body`: its JSON, RFC 9457 problem details where the service wrote it,
    None where it has no JSON."""
    problem = body if isinstance(body, dict) else {}
    detail = str(problem.get("detail") or f"the service answered with status {status}")
    errors = problem.get("errors")
    return KINDS.get(status, Refused)(status, detail, errors if isinstance(errors, list) else (), problem)

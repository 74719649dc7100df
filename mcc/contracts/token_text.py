"""What a token looks like: `mccp_` or `mccs_`, 43 characters of chance, and 6 by which a mistyped one is known; and a
secret of a webhook: `whsec_` and 32 bytes in base64.

Whoever finds one in a text knows it for one of this program, without knowing whose it is.
"""

import secrets
from base64 import b64encode
from binascii import crc32

from mcc.contracts.people import TokenKind

PREFIXES: dict[TokenKind, str] = {"personal": "mccp_", "service": "mccs_"}
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CHANCE_CHARACTERS, CHECK_CHARACTERS = 43, 6
TOKEN_CHARACTERS = 5 + CHANCE_CHARACTERS + CHECK_CHARACTERS
WEBHOOK_SECRET_PREFIX = "whsec_"
WEBHOOK_SECRET_BYTES = 32
WEBHOOK_SECRET_CHARACTERS = 50


def new_token(kind: TokenKind) -> str:
    """A token that nobody can guess: 256 bits."""
    begun = PREFIXES[kind] + "".join(secrets.choice(DIGITS) for _ in range(CHANCE_CHARACTERS))
    return begun + _check(begun)


def new_webhook_secret() -> str:
    """What a webhook is signed by, as Standard Webhooks spells it."""
    return WEBHOOK_SECRET_PREFIX + b64encode(secrets.token_bytes(WEBHOOK_SECRET_BYTES)).decode()


def is_token(text: str) -> bool:
    """Whether it is spelled as a token: its last characters say whether the others are right."""
    if len(text) != TOKEN_CHARACTERS or not text.startswith(tuple(PREFIXES.values())) or not text.isascii():
        return False
    return text[-CHECK_CHARACTERS:] == _check(text[:-CHECK_CHARACTERS])


def _check(begun: str) -> str:
    number, digits = crc32(begun.encode()), ""
    for _ in range(CHECK_CHARACTERS):
        number, digit = divmod(number, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits

"""Secrets kept out of texts: which values are secret, in what forms they are looked for, and what takes their place."""

from mcc.redaction.redactor import MARK, Redactor, Stream, WatchedSecrets
from mcc.redaction.secrets import FLOWER_FILE, TOKEN_FILE, secrets_among, text_of

__all__ = ["FLOWER_FILE", "MARK", "TOKEN_FILE", "Redactor", "Stream", "WatchedSecrets", "secrets_among", "text_of"]

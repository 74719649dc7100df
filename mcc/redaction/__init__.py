"""Keeping secrets out of texts: which values are secret, their encoded forms, and their replacement."""

from mcc.redaction.redactor import MARK, Redactor, Stream, WatchedSecrets
from mcc.redaction.secrets import FLOWER_FILE, TOKEN_FILE, secrets_among, text_of

__all__ = ["FLOWER_FILE", "MARK", "TOKEN_FILE", "Redactor", "Stream", "WatchedSecrets", "secrets_among", "text_of"]

"""This room is for limits as people write them on a command line: `key=value`."""

from collections.abc import Iterable

from pydantic import ValidationError

from mcc.contracts.limits import Limits
from mcc.contracts.mistakes import mistakes
from mcc.definitions.errors import suggestion


def limits_of(pairs: Iterable[str]) -> Limits:
    """Raises ValueError with a sentence."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key or not value:
            raise ValueError(f"--limit takes key=value, for example rounds=10; {pair!r} is not that")
        if key not in Limits.model_fields:
            raise ValueError(f"there is no limit {key!r}{suggestion(key, Limits.model_fields)}")
        values[key] = value
    try:
        return Limits.model_validate_strings(values)
    except ValidationError as error:
        raise ValueError(f"limits.{mistakes(error.errors())[0].sentence}") from error

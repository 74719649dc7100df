"""This room is for the JSON Schema of a result: checked once, then held against values within a bound of work."""

import functools
import json
from collections.abc import Mapping
from typing import Any

from mcc.rules import unset
from mcc.rules.errors import SchemaError
from mcc.rules.fitting import misfits
from mcc.rules.keywords import KEYWORDS
from mcc.rules.plain import Plain
from mcc.rules.schema_form import Form, Schema, formed
from mcc.rules.values import Fault

MAX_CHARACTERS = 1_000_000
"""Text in a result."""
MAX_VALUES = 50_000
"""Texts, numbers, lists and objects in a result."""

WRAPPED = "result"
"""The argument that carries a result which is not an object."""


class ResultSchema:
    """A JSON Schema (draft 2020-12) that was checked. Shared by threads; keeps nothing of any value."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._wraps = not _is_of_objects(form)

    @property
    def schema(self) -> Schema:
        """The schema itself, as plain JSON; not to be changed."""
        return self._form.root

    @property
    def tool_parameters(self) -> Mapping[str, Any]:
        """The schema as parameters of a tool: itself when it describes an object, else wrapped as `{"result": …}`."""
        root = self._form.root
        if not self._wraps and isinstance(root, dict):
            return root
        wrapping = {"type": "object", "required": [WRAPPED], "additionalProperties": False}
        if not self._form.targets:
            return {**wrapping, "properties": {WRAPPED: root}}
        moved = {"$defs": {WRAPPED: _moved(root)}, "properties": {WRAPPED: {"$ref": f"#/$defs/{WRAPPED}"}}}
        return {**wrapping, **moved}

    def handed_in(self, arguments: Mapping[str, Any]) -> Any:
        """The value in the arguments of a call made with `tool_parameters`: the way back from the wrapping.

        Null when the argument `result` is missing.
        """
        return arguments.get(WRAPPED) if self._wraps else dict(arguments)

    def errors(self, value: object) -> tuple[str, ...]:
        """At most ten sentences such as `findings[2].path: is required`; empty when `value` fits. Never raises.

        Blocks for up to about 0.3 s on the worst value: call it in a worker thread when the value is large.
        """
        try:
            plain = Plain(MAX_VALUES, MAX_CHARACTERS, finite=True).of(value)
        except Fault as fault:
            return (f"The result cannot be taken: {fault}; hand in less.",)
        except RecursionError:
            return ("The result cannot be taken: it is nested too deeply; hand in less.",)
        return misfits(self._form, plain, KEYWORDS)

    def with_unset(self, value: Any) -> Any:
        """A copy of `value` in which each property that the schema names is present, null where it was not set.

        Call it with what has no `errors`; what is too large or no JSON comes back as it is.
        """
        try:
            return unset.with_unset(self._form, Plain(MAX_VALUES, MAX_CHARACTERS).of(value))
        except (Fault, RecursionError):
            return value


def checked_schema(schema: object) -> ResultSchema:
    """`schema` (JSON Schema as JSON: a mapping, or true/false) ready for use. Raises `SchemaError`.

    Nothing is ever fetched: a `$ref` leads to a place in the same schema. Kept for reuse.
    """
    try:
        text = json.dumps(schema, default=dict)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError("this schema is not JSON, or nested too deeply") from error
    return _kept(text)


@functools.lru_cache(maxsize=128)
def _kept(text: str) -> ResultSchema:
    return ResultSchema(formed(json.loads(text)))


def _is_of_objects(form: Form) -> bool:
    """Whether every value that fits is an object: then it can be the arguments of a call as it is."""
    root = form.root
    if not isinstance(root, dict):
        return False
    return root.get("type") == "object" or (
        "type" not in root and "properties" in root and not any(key in root for key in ("enum", "const"))
    )


def _moved(schema: Any) -> Any:
    """`schema` with each `$ref` leading to where it stands once it is wrapped."""
    if isinstance(schema, list):
        return [_moved(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: f"#/$defs/{WRAPPED}{item[1:]}" if key == "$ref" and isinstance(item, str) else _moved(item)
        for key, item in schema.items()
    }

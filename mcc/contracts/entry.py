"""Journal entries: a fact with its number, its time and the record it belongs to."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, cast

from pydantic import GetJsonSchemaHandler, SerializeAsAny, TypeAdapter, computed_field, model_validator
from pydantic.json_schema import JsonSchemaValue

from mcc.contracts.fact import Fact
from mcc.contracts.journal import FACTS, AnyFact, FactByKind
from mcc.contracts.shape import Closed, Moment, share_fields_set, unchecked
from mcc.contracts.upcast import upcast


class _DescribedByKind:
    """Gives a `Fact` field the JSON schema of the union of all facts."""

    def __get_pydantic_json_schema__(self, _: object, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(TypeAdapter(FactByKind).core_schema)


class Origin(Closed):
    """The record that an entry belongs to, and its place in the tree; None and 0 for entries of the order itself."""

    record_id: str | None = None
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0


ORDER = Origin()


class Entry(Closed):
    """One entry of an order's journal; `seq` runs 1..N without a gap. `kind` says which of `FACTS` `data` is."""

    order_id: str
    seq: int
    at: Moment
    record_id: str | None = None
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0
    data: Annotated[SerializeAsAny[Fact], _DescribedByKind()]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def kind(self) -> str:
        return self.data.kind

    @property
    def fact(self) -> AnyFact:
        """`data` as a member of the closed union, so that a `match` can end in `assert_never`."""
        return cast(AnyFact, self.data)

    @property
    def origin(self) -> Origin:
        return Origin(record_id=self.record_id, parent_id=self.parent_id, agent=self.agent, depth=self.depth)

    @model_validator(mode="before")
    @classmethod
    def _parse_fact(cls, value: Any) -> Any:
        if not isinstance(value, dict) or isinstance(value.get("data"), Fact):
            return value
        fields = dict(value)
        fields["data"] = fact_of(str(fields.pop("kind", "")), fields.get("data"))
        return fields


def fact_of(kind: str, data: object) -> Fact:
    """The fact of this `kind` from `data`, a mapping in the shape of any readable version.

    Raises ValueError for an unknown kind or invalid data.
    """
    if kind not in FACTS:
        raise ValueError(f"there is no journal entry of kind {kind!r}")
    return FACTS[kind].model_validate(upcast(kind, data))


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry that the store has not numbered yet; it never leaves its process."""

    at: datetime
    origin: Origin
    data: Fact

    @property
    def fact(self) -> AnyFact:
        """As `Entry.fact`."""
        return cast(AnyFact, self.data)

    def numbered(self, order_id: str, seq: int) -> Entry:
        origin = self.origin
        share_fields_set(self.data)
        return unchecked(
            Entry,
            order_id=order_id,
            seq=seq,
            at=self.at,
            record_id=origin.record_id,
            parent_id=origin.parent_id,
            agent=origin.agent,
            depth=origin.depth,
            data=self.data,
        )

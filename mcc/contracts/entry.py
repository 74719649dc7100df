"""A journal entry: a fact, whose it is, when it was written, and its number."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler, SerializeAsAny, TypeAdapter, computed_field, model_validator
from pydantic.json_schema import JsonSchemaValue

from mcc.contracts.fact import Fact
from mcc.contracts.journal import FACTS, FactByKind
from mcc.contracts.shape import Closed, Moment, shares_its_fields, unchecked
from mcc.contracts.upcast import as_today


class _DescribedByKind:
    """Describes a `Fact` as what it is in truth: one of the union."""

    def __get_pydantic_json_schema__(self, _: object, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(TypeAdapter(FactByKind).core_schema)


class Origin(Closed):
    """Whose entry it is: the record and its place in the tree; all None and 0 for the order's own entries."""

    record_id: str | None = None
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0


ORDER = Origin()


class Entry(Closed):
    """One line of an order's journal; `seq` runs 1..N without a gap. `data` is one of `FACTS`, chosen by `kind`."""

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
    def origin(self) -> Origin:
        return Origin(record_id=self.record_id, parent_id=self.parent_id, agent=self.agent, depth=self.depth)

    @model_validator(mode="before")
    @classmethod
    def _narrow(cls, value: Any) -> Any:
        if not isinstance(value, dict) or isinstance(value.get("data"), Fact):
            return value
        fields = dict(value)
        fields["data"] = fact_of(str(fields.pop("kind", "")), fields.get("data"))
        return fields


def fact_of(kind: str, data: object) -> Fact:
    """The fact that `data` (a mapping, of any readable version) tells under `kind`.

    ValueError for a kind that does not exist.
    """
    if kind not in FACTS:
        raise ValueError(f"there is no journal entry of kind {kind!r}")
    return FACTS[kind].model_validate(as_today(kind, data))


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry before the store numbers it; it never leaves its process."""

    at: datetime
    origin: Origin
    data: Fact

    def numbered(self, order_id: str, seq: int) -> Entry:
        origin = self.origin
        shares_its_fields(self.data)
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

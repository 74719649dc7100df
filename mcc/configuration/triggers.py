"""The tables [triggers.NAME] of mcc.toml: what from outside becomes an order."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from mcc.configuration.network import VariableName
from mcc.configuration.replies import ReplyTable
from mcc.contracts.shape import Closed, JsonObject, Name

MOST_TRIGGERS = 100
SHORTEST_SECRET = 16
LARGEST_BODY_MB = 25

TriggerScheme = Literal["github", "gitlab", "gitea", "slack", "linear", "standard", "hmac"]
CelText = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,100}$")]
HookPath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._~-]*(/[A-Za-z0-9_][A-Za-z0-9._~-]*)*$", max_length=200)
]

OF_HMAC = ("header", "prefix", "encoding", "id", "event")
"""Keys of the scheme hmac alone."""


class TriggerTable(Closed):
    """A table [triggers.NAME]: `POST /hooks/PATH`, signed by `scheme`, becomes an order.

    `secret_env`: the service's variables with the secrets, two while one takes the place of the other. `when`: CEL over
    `payload`, `headers`, `event`, `id` and `trigger`; None: each delivery. `session`: a text with CEL in braces;
    deliveries of one text are turns of one session. `order`: as a new order, with CEL in the braces of its prompt,
    workspace, ref, labels and metadata. `reply`: where its answer goes. `principal`: as whom orders are placed; None:
    `trigger:NAME`.

    `header`, `prefix`, `encoding`: where the signature of the scheme hmac stands, what stands before it, and how it is
    written; `id`, `event`: CEL over `payload` and `headers`.
    """

    path: HookPath
    scheme: TriggerScheme
    secret_env: Annotated[tuple[VariableName, ...], Field(min_length=1, max_length=2)]
    order: JsonObject
    when: CelText | None = None
    session: CelText | None = None
    reply: ReplyTable | None = None
    principal: Annotated[str, StringConstraints(pattern=r"^(operator|(person|service):[0-9a-f-]{36})$")] | None = None
    max_body_mb: Annotated[float, Field(gt=0, le=LARGEST_BODY_MB, allow_inf_nan=False)] = 5.0
    turns_an_hour: Annotated[int, Field(ge=1, le=1_000, strict=True)] = 20
    header: HeaderName | None = None
    prefix: Annotated[str, StringConstraints(max_length=50)] = ""
    encoding: Literal["hex", "base64"] = "hex"
    id: CelText | None = None
    event: CelText | None = None

    @model_validator(mode="after")
    def _of_its_scheme(self) -> Self:
        if self.scheme == "hmac" and self.header is None:
            raise ValueError("the scheme hmac needs header, the name of the header with the signature")
        surplus = [name for name in OF_HMAC if name in self.model_fields_set]
        if self.scheme != "hmac" and surplus:
            raise ValueError(f"{surplus[0]} is of the scheme hmac: leave it out")
        return self


TriggerTables = Annotated[Mapping[Name, TriggerTable], Field(max_length=MOST_TRIGGERS)]


def different_paths(tables: Mapping[str, TriggerTable]) -> Mapping[str, TriggerTable]:
    """The tables. Raises ValueError where two have one path."""
    by_path: dict[str, str] = {}
    for name, table in tables.items():
        if (other := by_path.setdefault(table.path, name)) != name:
            raise ValueError(f"{name} and {other} have the same path {table.path!r}: give each a path of its own")
    return tables

"""Where answers go back to: `reply` of a trigger, and the tables [slack.NAME] and [linear.NAME] of mcc.toml."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Self, TypeAlias

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from mcc.addresses import Endpoint, url_of
from mcc.configuration.forges import https_address
from mcc.configuration.network import VariableName
from mcc.contracts.replies import PLACES, TableName
from mcc.contracts.shape import Closed

Filling = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]

OF_PLACE: Mapping[str, tuple[str, ...]] = {
    "forge": ("project", "number"),
    "slack": ("channel", "thread"),
    "linear": ("issue",),
}
"""Keys of a reply, by its place, in whose braces CEL stands."""

OPTIONAL = ("thread",)


class ReplyTable(Closed):
    """`reply` of [triggers.NAME]: `{forge, project, number}`, `{slack, channel, thread}` or `{linear, issue}`. What is
    named first is a table of mcc.toml, [forges.X], [slack.X] or [linear.X]; the others are texts with CEL in braces.

    `number`: of the issue or request; at GitLab `!` before it says that it is a merge request.
    """

    forge: TableName | None = None
    project: Filling | None = None
    number: Filling | Annotated[int, Field(ge=1, strict=True)] | None = None
    slack: TableName | None = None
    channel: Filling | None = None
    thread: Filling | None = None
    linear: TableName | None = None
    issue: Filling | None = None

    @model_validator(mode="after")
    def _of_one_place(self) -> Self:
        named = [place for place in PLACES if getattr(self, place) is not None]
        if len(named) != 1:
            raise ValueError("a reply names one of forge, slack and linear")
        keys = OF_PLACE[self.place]
        for key in keys:
            if getattr(self, key) is None and key not in OPTIONAL:
                raise ValueError(f"a reply with {self.place} needs {key}")
        if surplus := sorted(self.model_fields_set - {self.place, *keys}):
            raise ValueError(f"{surplus[0]} is not of a reply with {self.place}: leave it out")
        return self

    @property
    def place(self) -> str:
        """forge, slack or linear."""
        return next(place for place in PLACES if getattr(self, place) is not None)

    @property
    def table(self) -> str:
        """The name in [forges.NAME], [slack.NAME] or [linear.NAME]."""
        return str(getattr(self, self.place))

    @property
    def endpoint(self) -> str:
        """That table, `forges.hub`."""
        return f"{PLACES[self.place]}.{self.table}"

    @property
    def texts(self) -> Mapping[str, str | int]:
        """What deliveries fill in, by its key."""
        return {key: getattr(self, key) for key in OF_PLACE[self.place] if getattr(self, key) is not None}


class SlackTable(Closed):
    """A table [slack.NAME]. `token_env` names the variable of the service with the token of the app's bot; `api`: where
    Slack's methods are."""

    token_env: VariableName
    api: Annotated[str, AfterValidator(partial(https_address, loopback=True))] = "https://slack.com/api"

    @property
    def endpoint(self) -> Endpoint:
        return url_of(self.api).endpoint


class LinearTable(Closed):
    """A table [linear.NAME]. `token_env` names the variable of the service with the API key; `api`: where Linear's
    GraphQL is."""

    token_env: VariableName
    api: Annotated[str, AfterValidator(partial(https_address, loopback=True))] = "https://api.linear.app/graphql"

    @property
    def endpoint(self) -> Endpoint:
        return url_of(self.api).endpoint


SlackTables: TypeAlias = Annotated[Mapping[TableName, SlackTable], Field(max_length=50)]
LinearTables: TypeAlias = Annotated[Mapping[TableName, LinearTable], Field(max_length=50)]

"""The table [web]: which pages may be fetched, and who is asked when something is searched for."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from mcc.addresses import Refused, url_of
from mcc.configuration.egress import Hosts, PrivateHosts, VariableName
from mcc.contracts.shape import Closed

Backend = Literal["searxng", "brave", "tavily"]


class WebSearch(Closed):
    """The table [web.search]. `url`: where it is asked, None = the service's own address; a SearXNG has none. `key_env`
    names the drone's variable with the key."""

    backend: Backend
    url: str | None = None
    key_env: VariableName | None = None

    @field_validator("url")
    @classmethod
    def _an_address(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                url_of(value)
            except Refused as error:
                raise ValueError(str(error).rstrip(".")) from error
        return value

    @model_validator(mode="after")
    def _can_be_asked(self) -> "WebSearch":
        if self.backend == "searxng" and self.url is None:
            raise ValueError('a SearXNG is asked at its own address: url = "https://searx.example.org"')
        if self.backend != "searxng" and self.key_env is None:
            raise ValueError(f'{self.backend} wants a key: key_env = "NAME" of the variable that holds it')
        return self


class Web(Closed):
    """`hosts`: what `web_fetch` may fetch, none = there is no such tool. `allow_private`: hosts whose addresses may be
    private ones, each with its port. `seconds`, `max_mb`: of one page, redirects and unpacking included."""

    hosts: Hosts = ()
    allow_private: PrivateHosts = ()
    seconds: Annotated[float, Field(gt=0, le=300, allow_inf_nan=False)] = 30.0
    max_mb: Annotated[float, Field(gt=0, le=50, allow_inf_nan=False)] = 5.0
    search: WebSearch | None = None

"""Of the page on configuration: what the sandbox may use and reach, which pages may be fetched, and forges."""

from collections.abc import Iterator, Mapping
from typing import Any

from mcc.configuration.forges import Forge
from mcc.configuration.network import EgressSettings, Sandbox, SwappedSecret, Web, WebSearch
from mcc.configuration.replies import LinearTable, SlackTable
from scripts.reference.markdown import properties, table

OF_SANDBOX: Mapping[str, str] = {
    "kind": "`bubblewrap`: each program gets a sandbox of its own, and where none can be made, tools that run programs "
    "are off. `container`: you declare that the container in which this drone runs is the sandbox.",
    "memory_mb": "Memory of one call with all that it starts, where cgroups are delegated; else addresses of each "
    "process.",
    "processes": "Processes and threads of one call.",
    "cpus": "Processors' worth of time of one call, where cgroups are delegated.",
    "tmp_mb": "Size of the private `/tmp`.",
    "file_mb": "Size of each file that is written.",
    "jobs": "Commands of one order that go on in the background at a time.",
}
OF_EGRESS: Mapping[str, str] = {
    "allow": "Hosts that programs in the sandbox may reach: `name:port`, `name` (ports 443 and 80), `*.name:port` (all "
    "below it, at any depth, without itself), `*` (every public host). None: no network.",
    "allow_private": "Hosts with private addresses that may be reached all the same, as `name:port` or `address:port`. "
    "Link-local addresses and services of this installation never are.",
}
OF_SECRETS: Mapping[str, str] = {
    "env": "The variable of the drone that holds the secret.",
    "hosts": "The hosts that it is sent to, in headers only, as far as `allow` names them too.",
}
OF_WEB: Mapping[str, str] = {
    "hosts": "What `web_fetch` may fetch, written as in `allow`. None: there is no such tool.",
    "allow_private": "As in `[sandbox.egress]`; a SearXNG in your own network wants it too.",
    "seconds": "Longest time of one page, redirects included.",
    "max_mb": "Longest page, unpacked.",
    "search": "The table `[web.search]`. None: there is no `web_search`.",
}
OF_SEARCH: Mapping[str, str] = {
    "backend": "Who is asked.",
    "url": "Where. None: at the service's own address.",
    "key_env": "The variable of the drone that holds the key.",
}
OF_FORGE: Mapping[str, str] = {
    "kind": "Whose API it has; `gitea` is Forgejo as well.",
    "address": "Where its repositories are. None: `https://github.com`, `https://gitlab.com`; Gitea has no such place.",
    "api": "Where its API is. None: where this kind has it. Its hosts may have private addresses.",
    "token_env": "The variable that holds the access token: of the drone for the push and for the request, of the "
    "service for replies of triggers.",
    "prefix": "What each branch that is pushed begins with.",
    "protected": "Branches, as globs, that nothing is pushed to, besides the default branch.",
    "draft": "Whether requests are opened as drafts.",
    "retry_seconds": "How long a forge that is busy or broken is asked again before the order waits for it.",
}

OF_SLACK: Mapping[str, str] = {
    "token_env": "The variable of the service that holds the token of the app's bot.",
    "api": "Where the methods of Slack are. Its host may have a private address.",
}
OF_LINEAR: Mapping[str, str] = {
    "token_env": "The variable of the service that holds the key or the token.",
    "api": "Where its GraphQL is. Its host may have a private address.",
}


def tables() -> Iterator[str]:
    """For the section on drones' tables of their own."""
    yield from ("## Programs that tools start", "", "What [the sandbox](../security.md#the-sandbox) lets them use:")
    yield from ("", "`[sandbox]`:", "", *_rows(Sandbox, OF_SANDBOX, leave_out=("egress", "secrets")))
    yield from ("## Network of tools", "", "Without these tables no tool reaches anything:")
    yield "[how to open it](../how-to/reach-the-network.md). `[sandbox.egress]`:"
    yield from ("", *_rows(EgressSettings, OF_EGRESS))
    yield from ("`[sandbox.secrets.NAME]`; programs find a stand-in in the variable NAME:", "")
    yield from _rows(SwappedSecret, OF_SECRETS)
    yield from ("`[web]`:", "", *_rows(Web, OF_WEB))
    yield from ("`[web.search]`:", "", *_rows(WebSearch, OF_SEARCH))
    yield from ("## Forges", "", "`[forges.NAME]`, where orders on a git address deliver their work:", "")
    yield from _rows(Forge, OF_FORGE)
    yield from (
        "## Chats",
        "",
        "Where [answers of triggers](../how-to/take-deliveries.md#where-the-answer-goes) may go besides",
    )
    yield from ("forges. `[slack.NAME]`:", "", *_rows(SlackTable, OF_SLACK))
    yield from ("`[linear.NAME]`:", "", *_rows(LinearTable, OF_LINEAR))


def _rows(model: Any, meanings: Mapping[str, str], leave_out: tuple[str, ...] = ()) -> Iterator[str]:
    rows = ((name.strip("`"), (name, *row)) for name, *row in properties(model.model_json_schema()))
    shown = ((*row, meanings[name]) for name, row in rows if name not in leave_out)
    yield from table(("key", "value", "default", "meaning"), shown)

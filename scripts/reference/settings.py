"""The page on configuration: every setting of the service and of drones."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from drone import settings as drone
from mcc import settings as mcc
from mcc.configuration.file import MODEL_KEYS, TRUSTED_TABLES
from mcc.configuration.mcp_servers import McpServer
from mcc.configuration.providers import HOSTS, OLLAMA, PROVIDERS
from mcc.configuration.settings import ApprovalSettings
from mcc.redaction import MARK, secrets
from mcc.redaction.redactor import SHORTEST
from scripts.reference import network
from scripts.reference.markdown import code, properties, shape, shown, table

OF_MCC: Mapping[str, str] = {
    "data_dir": "Where a service keeps what it owns: SQLite file, token, logs, the data of an embedded Redis.",
    "database_url": "`sqlite:///FILE` or `postgresql://USER@HOST/NAME`; several hosts as `H1:5432,H2:5432`.",
    "database_pooler": "What is in front of PostgreSQL: nothing, or a pooler that keeps a connection for each client "
    "(session) or for each transaction. `auto` finds out, and takes every pooler for the last kind.",
    "database_prepared": "A pooler in transaction mode keeps prepared statements (PgBouncer from 1.21 on).",
    "redis_url": "`redis://`, `rediss://`, `unix://`, or Sentinels: "
    "[the forms](../how-to/scale-drones.md#a-redis-that-fails-over). None: `mcc up` starts a private Redis, "
    "`mcc serve` looks at `redis://127.0.0.1:6379/0`.",
    "redis_prefix": "What all keys and channels in Redis begin with. Installations that share a database of Redis need "
    "one each.",
    "host": "Address to listen on. Anything but loopback needs a token that was chosen.",
    "port": "Port to listen on; 0 takes any free one.",
    "token": "The operator's token, at least 32 characters.",
    "token_file": "A file that holds the token. None: `token` in the data dir, made at the first start.",
    "prompts_dir": "The service hands it to the drones of `mcc up`; it reads no prompts itself.",
    "queues": "Queues that orders may name.",
    "workspace_roots": "Directories under which orders may name a workspace, besides those that drones offer.",
    "allowed_hosts": "Host names under which the API may be called, besides loopback and `host`.",
    "lease_seconds": "How long a drone is believed without a sign of life. `mcc up` hands it to its drones.",
    "renew_seconds": "How often a drone gives one. `mcc up` hands it to its drones.",
    "sweep_seconds": "How often the service looks for orders that nobody holds.",
    "disk_reserve_mb": "Kept free beside the SQLite file and in the data dir: with less, no new order is taken.",
    "flower_titles": "`off`: titles of sessions are not shown in Flower.",
    "max_queued_orders": "So many orders may be queued: another one is refused with 429.",
    "flower_port": "Where `mcc up` puts Flower, or on the next free port; 0 takes any.",
    "metrics_token": "Opens `/metrics` and nothing else, for a program that collects metrics; 32 characters at least.",
    "metrics_token_file": "A file that holds it.",
    "public_url": "The address that browsers use, where a proxy stands before the service: `https://HOST`. Its host is "
    "allowed; with https, cookies are never sent without.",
    "retention_days": "Journals of orders go so many days after these ended; records and answers stay. 0: never.",
}
OF_DRONES: Mapping[str, str] = {
    "public_url": "As for the service: requests at forges lead to their orders there.",
    "data_dir": "Used for the default of `database_url`, and to find mcc.toml.",
    "database_url": "The same database as the service's.",
    "database_pooler": "What is in front of PostgreSQL, as for the service.",
    "database_prepared": "A pooler in transaction mode keeps prepared statements.",
    "redis_url": "The same Redis as the service's.",
    "redis_prefix": "The same as the service's.",
    "token": "The operator's token: a drone keeps it out of every text, and does nothing else with it.",
    "token_file": "A file that holds it. None: `token` in the data dir.",
    "prompts_dir": "Your `master/system.md`, `subagent/*/system.md` and `skills/*/SKILL.md`, beside the shipped.",
    "queues": "Queues to serve.",
    "slots": "Orders at a time.",
    "name": "The name under which the drone is listed.",
    "workspace_roots": "Directories under which it works; an order with a workspace under nobody's fails as `invalid`.",
    "lease_seconds": "How long it is believed without a sign of life; at least twice `renew_seconds`.",
    "renew_seconds": "How often it gives one.",
    "sweep_seconds": "How often it looks for orders that nobody holds.",
    "disk_reserve_mb": "Kept free beside the SQLite file, in the data dir and in workspaces: with less, orders wait.",
    "flower_titles": "`off`: titles of sessions are not shown in Flower.",
    "memory_mb": "What its process may hold: beyond that orders wait. Unset: three quarters of the machine, or of its "
    "control group. 0: no bound.",
    "memory_shares": "How many drones that memory is for. `mcc up` says how many it has.",
    "poll_seconds": "How often it asks the database for work by the clock (at most 1 while Redis is away).",
    "park_after_seconds": "An order all of which waits for a person or a provider gives its slot back after so long.",
    "canary_seconds": "How often it sends itself a message, to learn whether it still consumes.",
    "canary_patience_seconds": "How long that message may take.",
    "drain_cancel_seconds": "After SIGTERM: how long turns may go on to their end.",
    "drain_hand_back_seconds": "After SIGTERM: when orders that still run are handed back.",
    "database_wait_seconds": "How long a starting drone waits for a database that is away, before it gives up.",
    "egress_proxy": "An HTTP proxy through which models and MCP servers on other machines are reached by https: "
    "`http://HOST:PORT`.",
    "checkpoint_days": "An order can be reverted for so long after it last wrote; 0 = as long as the disk has room.",
    "checkout_days": "A checkout of a git address is deleted when no order used it for so long; 0 = never.",
    "checkouts_mb": "While checkouts and mirrors take more than this, the least lately used go first; 0 = no bound.",
    "wedged_seconds": "The process ends itself when its loop does not turn, or work waits for a thread, for so long.",
    "heartbeat": "A descriptor for signs of life; whoever supervises the process kills it when none come.",
    "metrics": "`HOST:PORT`, or the next free port, at which it serves Prometheus metrics of its own, without a token.",
    "log_level": "What is logged on standard error.",
    **{one.address_setting: f"Address for `{one.name}/…` instead of the provider's own." for one in PROVIDERS},
    OLLAMA.address_setting: "Address of an Ollama; `http://127.0.0.1:11434` is tried when it is not set.",
}
OF_MODELS: Mapping[str, str] = {
    "provider": "Whose model it is; `offline` and `scripted` are models without network.",
    "api": "The form of the requests. None: what the provider speaks at that address.",
    "base_url": "Address of the server. None: the provider's own.",
    "model": "The name that the server knows; for `scripted` the path of a script file.",
    "api_key_env": "Name of the environment variable that holds the key. A key never stands in this file.",
    "key_command": "A program with its arguments that prints the key, as a list or as one text; it is run without a "
    "shell, for 30 s at most.",
    "key_seconds": "How long each of its keys is used. None: until the provider refuses it (401, 403).",
    "context_tokens": "Size of the model's context. None: as the table of models, its own server or a refusal says.",
    "max_output_tokens": "Cap on the output of one reply.",
    "pictures": "The most pictures that it is shown in one request. None: as its provider says.",
    "images": "Whether it takes pictures. None: as the table of models says, else it does not.",
    "thinking": "How much it thinks where neither order, agent file nor parent says: `off` to `max`. `inherit`: as it "
    "does by itself. A level that it is known not to take is refused.",
    "temperature": "Of its replies, where neither order, agent file nor parent says.",
    "extra_body": "A table: stands in every request, in place of what would have the same name there.",
    "extra_headers": "A table of headers, in the same way. Those named as keys, tokens and secrets are redacted.",
    "cache_replies": "Exactly the same question gets the reply of before, from the drone's memory; failed and cut ones "
    "are not kept. `request_id` of such a step begins with `cached:`, and it spends nothing.",
    "cache_ttl": "How long a provider that lets one choose (Anthropic) keeps the beginning of a prompt.",
    "cache_seconds": "How long a server keeps the beginning of a prompt, where the table of models does not say: after "
    "that a turn's set-up is made anew, and a minute before it a session in which nobody speaks is compacted.",
    "send_key_to_other_host": "The key of a known provider may go to a `base_url` that is not the provider's.",
    "allow_http": "`base_url` may be `http` at another machine; its key and all texts travel in the clear.",
    "proxy": "`http://HOST:PORT`, before `egress_proxy`; `environment`: what `HTTPS_PROXY` and `NO_PROXY` say, for "
    "https to other machines.",
    "stream": "Whether replies are streamed.",
    "first_token_seconds": "Longest wait for the first token of a reply that streams.",
    "stall_seconds": "Longest silence of such a reply after its first token.",
    "call_seconds": "Longest time of a whole call. None: a reply that streams has as long as its agent, one that comes "
    "whole the limit `model_call_seconds`.",
    "retry_seconds": "How long a busy or broken provider is asked again before the agent waits for it. None: 300, and "
    "10 where a `fallback` stands by.",
    "fallback": "Models that are asked instead, in this order, when this one gives no reply.",
    "price": "The table `[models.ALIAS.price]`: US dollars per million tokens.",
}
ELSEWHERE: Mapping[str, str] = {
    "MCC_CONFIG": "Your own configuration file, instead of the places named above.",
    "MCC_TRUSTED_CONFIG": "A trusted `mcc.toml` to lay over it, instead of the one in the current directory.",
    "MCC_URL": "The service that `mcc` commands and the Python client talk to.",
    "MCC_PROXY": "The proxy, `http://HOST:PORT`, through which they reach a service on another machine by https.",
    "SSL_CERT_FILE": "A file of the certificate authorities that they trust instead of the system's. "
    "Drones trust them too, besides the public ones: in fetches, pushes and calls of forges.",
    "SSL_CERT_DIR": "A directory of them.",
    "XDG_CONFIG_HOME": "Where the directory `mcc` with your own `mcc.toml` lies; `~/.config` when it is not set.",
    "XDG_DATA_HOME": "Where the default data dir lies; `~/.local/share` when it is not set.",
    **{key: f"Key for `{one.name}/…`; read by drones alone." for one in PROVIDERS for key in one.key_names},
}
COMPUTED = {
    "data_dir": "`mcc` in `XDG_DATA_HOME`, else `~/.local/share/mcc`",
    "database_url": "`mcc.db` in the data dir (SQLite)",
    "name": "host name and process id",
}
"""Defaults that are worked out when a process starts."""


OF_OIDC = (
    ("`issuer`", "", "What the provider calls itself, letter by letter: `https://…`, or `http://` on this machine."),
    ("`client_id`", "", "Of the client that is registered there."),
    ("`client_secret_env`", "none", "The variable that holds its secret; none: a public client. PKCE is always used."),
    ("`roles`", "", '`{GROUP = ROLE}`; `"*"` is everybody. The strongest counts; who has none is refused.'),
    ("`groups_claim`", "`groups`", "Where the groups stand, in the ID token or in userinfo; dots lead into objects."),
    ("`scopes`", "`openid profile email groups`", "What is asked for."),
    ("`name`", "`OpenID Connect`", "What the button is called."),
    ("`session_hours`", "`12`", "How long a browser stays signed in."),
)
"""Keys of [oidc]; a test compares them with the settings."""


def page() -> Iterator[str]:
    yield from ("# Configuration", "", "What counts is, in this order: command line, environment, `mcc.toml`, default.")
    yield "An empty environment variable counts as not set. Lists are written with commas in the environment and as"
    yield "arrays in TOML; paths that have commas or colons as a JSON array. `mcc config show` prints what counts for"
    yield "the service. The service refuses a misspelt `MCC_` variable, table or key; a drone refuses an unknown key of"
    yield "the tables that are its own."
    yield from _files()
    yield from ("", "## The service", "", "Table `[mcc]` of `mcc.toml`.", "")
    schema = mcc.ServiceSettings.model_json_schema()["properties"]
    names = [name for name in mcc.ServiceSettings.model_fields if name not in mcc.ServiceSettings.own_tables]
    rows = ((name, mcc.ServiceSettings.variables(name), schema[name]) for name in names)
    yield from _table(rows, OF_MCC)
    yield "`[people]`: `session_hours` (720), for how long a link of `mcc up` or `mcc open` signs a browser in."
    yield ""
    yield "`[oidc]` lets people [sign in with a provider](../how-to/sign-in-with-a-provider.md); it needs the extra"
    yield "`oidc`, and only your own file may have it:"
    yield ""
    yield from table(("key", "default", "meaning"), OF_OIDC)
    yield "`[budgets]`: what everybody may spend a day who has no [budget](../how-to/set-budgets.md) of their own."
    yield "`usd`, `orders` (none: any amount), `order_usd` (a tenth of `usd`), `timezone` (UTC)."
    yield ""
    yield '`[webhooks]`: `allow` (`["*"]`), the hosts to which webhooks may be sent, by https and at public addresses,'
    yield "each as `name:port`, `*.name` or `name` for ports 443 and 80; `allow_private`, a list of `host:port` that"
    yield "may have private addresses and be reached by http."
    yield ""
    yield '`[doors]`: `off`, some of `["schedules", "triggers", "webhooks"]`, for a service without them: what belongs'
    yield "to them is answered with 404 and not acted on. Without webhooks, an order takes no `webhook_url`, what is"
    yield "noted for endpoints waits for another service, and answers of triggers are sent."
    yield ""
    yield from ("## Drones", "", "Table `[drone]` of `mcc.toml`. What has two names in the environment is read from")
    yield "`[mcc]` as well; the first name, and `[drone]`, win. `mcc up` decides these for its own drones."
    yield ""
    schema = drone.Settings.model_json_schema()["properties"]
    names = [name for name in drone.Settings.model_fields if name not in drone.NOT_IN_THE_ENVIRONMENT]
    fields = ((name, drone.Settings.variables(name), schema[name]) for name in names)
    addresses = ((name, (name.upper(),), {"type": "string"}) for name in drone.ADDRESS_SETTINGS)
    yield from _table(chain(fields, addresses), OF_DRONES)
    yield from _models()
    yield from network.tables()
    yield from ("## Other variables", "")
    yield from table(("variable", "meaning"), ((code(name), text) for name, text in ELSEWHERE.items()))
    yield from ("", "## What is secret", "", *_secrets())


def _secrets() -> Iterator[str]:
    words, others, plain = (", ".join(names) for names in (secrets.WORDS, secrets.OTHER_WORDS, secrets.PLAIN_NAMES))
    yield f"`{MARK}` takes the place of the operator's token, whatever is spelled like a token of a person or service"
    yield "or like the secret of a webhook,"
    yield f"Flower's login (`{secrets.LOGINS[0]}` too),"
    yield "keys of models, passwords in addresses, and the values of variables that look like secrets:"
    yield f"{secrets.FEWEST_CHARACTERS} characters or more under a name with {words} in it."
    yield f"Left alone are names whose word is another one ({others}),"
    yield f"the values of {plain}, and words that are nobody's secret, such as `postgres`."
    yield "A whole path of something that is there is no secret: what the file says is, up to"
    yield f"{secrets.LARGEST_BYTES:,} bytes, and of a JSON object only what has such a name."
    yield f"Nothing of fewer than {SHORTEST} characters is looked for."


def _files() -> Iterator[str]:
    tables = " and ".join(f"`[{name}]`" for name in TRUSTED_TABLES)
    keys = ", ".join(f"`{key}`" for key in MODEL_KEYS)
    yield from ("", "## Where `mcc.toml` is read from", "")
    yield "The first of these that is there is your own file, and may set everything:"
    yield from (
        "",
        "1. the one that `MCC_CONFIG` names, by its whole path,",
        "2. `$XDG_CONFIG_HOME/mcc/mcc.toml`, by default `~/.config/mcc/mcc.toml`,",
    )
    yield from ("3. `mcc.toml` in the data dir of `--data-dir` or the environment, else in the default one.", "")
    yield "A data dir that you name is yours with all that is in it: name none that came with a checkout."
    yield "A file that another user owns, or that everybody can write, counts only where `MCC_CONFIG` names it."
    yield ""
    yield "One in the current directory may be somebody else's: it comes with a checkout. It is passed over, and that"
    yield "is told, until you said `mcc config trust PATH`. The word is kept by path and digest in `trust.json` beside"
    yield "your own file; a change wants it anew, and `mcc config trust --forget PATH` takes it back. A trusted one is"
    yield f"laid over your own and may set {tables}, and of `[models.ALIAS]` only {keys}; all else in it is passed"
    yield "over and told. A model's provider stays when your own table of that name says more than these keys, so"
    yield "that no key of yours goes to another provider, and no model becomes `scripted`, which names a file to read."
    yield "`mcc config show` says which file counts and what was passed"
    yield "over, and why; so do `mcc up`, `mcc serve`, `mcc run`, `drone work` and `drone run` when they start."
    yield ""
    yield f"The key of a known provider ({', '.join(map(code, HOSTS))}) is sent to that"
    yield "provider's hosts only, unless the environment names another one beside it (`OPENAI_BASE_URL` beside"
    yield "`OPENAI_API_KEY`), or the model's table in your own file says `send_key_to_other_host = true`. Redirects are"
    yield "not followed."


def _table(rows: Iterator[tuple[str, Sequence[str], Any]], meanings: Mapping[str, str]) -> Iterator[str]:
    yield from table(
        ("setting", "environment", "value", "default", "meaning"),
        (
            (code(name), ", ".join(map(code, names)), shape(inside), _default(name, inside), meanings[name])
            for name, names, inside in rows
        ),
    )


def _default(name: str, inside: Mapping[str, Any]) -> str:
    return COMPUTED[name] if name in COMPUTED else shown(inside.get("default"))


def _models() -> Iterator[str]:
    yield from ("## Models", "", "One table `[models.ALIAS]` for each model that shall have a name of its own.", "")
    known = properties(drone.ModelConfig.model_json_schema())
    yield from table(("key", "value", "default", "meaning"), ((*row, OF_MODELS[row[0].strip("`")]) for row in known))
    yield from (
        "`[models.ALIAS.price]`; what is not said costs as `input` does, `cache_write_1h` as `cache_write`:",
        "",
    )
    yield from table(("key", "value", "default"), properties(drone.Price.model_json_schema()))
    yield from ("`[defaults]`, used where neither the order nor the agent file names a model:", "")
    yield from table(("key", "value", "default"), properties(drone.Defaults.model_json_schema()))
    yield "`[tools]`: `modules`, a list of files beside your own `mcc.toml` (without `.py`) or names that can be"
    yield "imported: [tools of your own](../how-to/add-a-tool.md#in-the-service-without-a-change-of-mcc)."
    yield ""
    yield "`[mcp.NAME]`, a table for each MCP server: [use MCP servers](../how-to/use-mcp-servers.md) says more."
    yield ""
    yield from table(("key", "value", "default"), properties(McpServer.model_json_schema()))
    yield "`[documents]`: `functions`, a list of modules of the same kind, with the functions that blueprints name as"
    yield "rules. The service and each drone read it."
    yield ""
    yield "`[permission]`: what agents may call, by tool, glob, group or `*`; `protected`, globs of paths that no tool"
    yield "writes; `unprotected`, globs of [protected names](protected-names.md) that are taken out."
    yield "[Allow, ask, deny](../how-to/allow-ask-deny.md) has the grammar. The service and each drone read it."
    yield ""
    yield "`[approvals]`, for calls that a person is asked for:"
    yield ""
    yield from table(("key", "value", "default"), properties(ApprovalSettings.model_json_schema()))
    yield "`expire_seconds`: for so long they wait. `wait_days`: for so long an order waits for answers to questions of"
    yield "`ask_user` that have no deadline. `on_ask`: whether calls wait or are denied in orders that do not say;"
    yield "None: they wait in those of `mcc run`, and are denied with `--detach` and in those placed over HTTP without"
    yield "the header `MCC-Attended: true`."
    yield ""
    yield "`[sessions]`: `context`, what later turns of a session are shown of an ended one: `full` (the default), all"
    yield "that its agent was shown and said, or `answers`, its prompt and answer alone."
    yield ""
    yield "`[memory]`: `accept`, which [memories](../how-to/remember.md) that agents write count at once: `all`,"
    yield "`people` (none: a person accepts each) or `rule` (those for which `when` is true, in CEL over `name`,"
    yield "`text`, `agent` and `tainted`); without it, those whose agent had been shown no text from outside."
    yield "`stale_days` (90): a memory that nobody has verified for as long may be out of date."
    yield ""
    yield "`[compaction]`: when a conversation that outgrows its model's context is compacted, as `compaction` of an"
    yield "agent file, which wins. `window_share` (0.7): from this part of the context on it is summarised while the"
    yield "agent goes on. `keep_turns` (2): the newest turns that a summary leaves as they are. `idle` (true): a"
    yield "session whose last turn took `idle_share` (0.5) of the context or more is compacted between its turns, a"
    yield "minute before the provider's cache of it expires; only mcc.toml says so. `model` (`inherit`): writes the"
    yield "summaries; another one than the agent's own finds nothing in its cache, which is told."
    yield ""
    yield "`[roles]`: names of agents, each with an alias or `provider/model`. An agent is asked with that model where"
    yield "neither the order, the call that hired it nor its file names one; else with its parent's."
    yield ""
    yield "Without `[defaults]` it is the first provider that has a key, in this order:"
    first = ", ".join(f"`{one.name}/{one.first_model}`" for one in PROVIDERS if one.key_name)
    yield from (f"{first}; then the newest chat model of an Ollama that answers; then `offline`.", "")

"""The command `mcc run`: one order, submitted and followed."""

import sys
from pathlib import Path
from typing import Any

from mcc.cli.asking import (
    Asked,
    controls_in,
    given,
    key_in,
    limits_in,
    metadata_in,
    moment_in,
    object_in,
    permission_in,
)
from mcc.cli.command import USAGE, DataDir, Url, fail
from mcc.cli.following import conclude
from mcc.cli.placing import place_and_follow, shown_as
from mcc.cli.run_options import (
    Agent,
    Control,
    Detach,
    GoOn,
    IdempotencyKey,
    InSession,
    JsonLines,
    Label,
    Limit,
    MaxOutputTokens,
    MaxRevisions,
    Metadata,
    Mode,
    Model,
    NotBefore,
    OnAsk,
    Permission,
    Prompt,
    Queue,
    Quiet,
    Ref,
    Rule,
    Schema,
    ServiceTier,
    Temperature,
    Thinking,
    VerifyAgent,
    VerifyRubric,
    Workspace,
)


def run(
    prompt: Prompt,
    workspace: Workspace = None,
    ref: Ref = None,
    agent: Agent = "master",
    model: Model = None,
    thinking: Thinking = None,
    temperature: Temperature = None,
    max_output_tokens: MaxOutputTokens = None,
    service_tier: ServiceTier = None,
    session: InSession = None,
    go_on: GoOn = False,
    limit: Limit = None,
    label: Label = None,
    metadata: Metadata = None,
    control: Control = None,
    queue: Queue = "default",
    schema: Schema = None,
    rule: Rule = None,
    verify_rubric: VerifyRubric = None,
    verify_agent: VerifyAgent = None,
    max_revisions: MaxRevisions = None,
    mode: Mode = None,
    permission: Permission = None,
    on_ask: OnAsk = None,
    not_before: NotBefore = None,
    idempotency_key: IdempotencyKey = None,
    detach: Detach = False,
    quiet: Quiet = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: JsonLines = None,
) -> None:
    """Submit one work order and follow it to its end: progress on stderr, the answer on stdout.

    Where no service runs and none is named, one is started for this order alone. Ctrl-C stops following, not the
    order, unless it was started so: then there is nobody left to do it.

    Example: mcc run "Explain this repository" --workspace . --limit rounds=20 --limit cost_usd=0.50
    """
    how = {"model": model, "thinking": thinking, "temperature": temperature, "service_tier": service_tier}
    may = {"queue": queue, "mode": mode, "permission": permission_in(permission), "on_ask": on_ask}
    told = {"labels": label or None, "metadata": metadata_in(metadata or []), "controls": controls_in(control)}
    order: dict[str, Any] = {
        "agent": agent,
        **how,
        **may,
        **told,
        "max_output_tokens": max_output_tokens,
        "session_id": session,
        "limits": limits_in(limit or []),
        "result_schema": object_in(schema, "--schema"),
        "rules": [{"cel": one} for one in rule or []] or None,
        "verify": given(rubric=verify_rubric, agent=verify_agent, max_revisions=max_revisions),
        "not_before": moment_in(not_before),
        **where_in(workspace, ref),
    }
    asked = Asked(_read() if prompt == "-" else prompt, order, key_in(idempotency_key), go_on, detach, quiet)
    shown = shown_as(as_json, quiet)
    place_and_follow(asked, shown, url, data_dir, conclude=lambda client, order: conclude(order, shown))


def where_in(said: str | None, ref: str | None) -> dict[str, str | None]:
    """A git address as it stands, else the whole path of a directory."""
    from mcc.configuration.workspaces import is_git_address

    is_address = said is not None and is_git_address(said)
    return {"workspace": said if is_address else str(Path(said or "").resolve()), "ref": ref}


def _read() -> str:
    """The prompt from standard input, no more of it than any service would take."""
    from mcc.contracts.order import PROMPT_CHARACTERS

    try:
        return sys.stdin.read(PROMPT_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        fail(f"The prompt on standard input is not UTF-8 text ({error.reason}).", USAGE)

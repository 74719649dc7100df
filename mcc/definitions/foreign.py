"""Tables for agent files of other systems: recognition of the system, and equivalents of keys, tools and models."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import PurePath


class ForeignFormat(StrEnum):
    """The systems whose agent files can be imported."""

    CLAUDE = "claude"
    OPENCODE = "opencode"
    GEMINI = "gemini"
    COPILOT = "copilot"


PLACES: Mapping[ForeignFormat, tuple[str, ...]] = {
    ForeignFormat.CLAUDE: (".claude/agents",),
    ForeignFormat.OPENCODE: (".opencode/agent", ".opencode/agents"),
    ForeignFormat.GEMINI: (".gemini/agents",),
    ForeignFormat.COPILOT: (".github/agents", ".github/chatmodes"),
}
"""Directories of a workspace with the agent files of each system."""

OPENCODE_FILES = ("opencode.json", "opencode.jsonc")
COPILOT_ENDS = (".agent.md", ".chatmode.md")


def format_of(path: PurePath) -> ForeignFormat | None:
    """The system of a file, by its name and directories; None where they do not tell."""
    if path.name in OPENCODE_FILES:
        return ForeignFormat.OPENCODE
    if path.name.endswith(COPILOT_ENDS):
        return ForeignFormat.COPILOT
    steps = path.parts[:-1]
    for format_, places in PLACES.items():
        for place in places:
            above, below = place.split("/")
            # Anywhere in the path, so that files in folders below count too.
            if any(pair == (above, below) for pair in pairwise(steps)):
                return format_
    if path.suffix == ".md" and steps[-2:] in (("opencode", "agent"), ("opencode", "agents")):
        return ForeignFormat.OPENCODE
    return None


class Meaning(StrEnum):
    """The meaning of a key, independent of its name in each system."""

    NAME = "name"
    DESCRIPTION = "description"
    TOOLS = "tools"
    WITHOUT = "without"
    PERMISSION = "permission"
    MODE = "mode"
    MODEL = "model"
    TEMPERATURE = "temperature"
    THINKING = "thinking"
    ROUNDS = "rounds"
    MINUTES = "minutes"
    PROMPT = "prompt"
    OFF = "off"
    REMOTE = "remote"


_SHARED = {"name": Meaning.NAME, "description": Meaning.DESCRIPTION, "tools": Meaning.TOOLS, "model": Meaning.MODEL}

KEYS: Mapping[ForeignFormat, Mapping[str, Meaning]] = {
    ForeignFormat.CLAUDE: {
        **_SHARED,
        "disallowedTools": Meaning.WITHOUT,
        "maxTurns": Meaning.ROUNDS,
        "effort": Meaning.THINKING,
        "permissionMode": Meaning.MODE,
    },
    ForeignFormat.OPENCODE: {
        **_SHARED,
        "temperature": Meaning.TEMPERATURE,
        "steps": Meaning.ROUNDS,
        "maxSteps": Meaning.ROUNDS,
        "reasoningEffort": Meaning.THINKING,
        "permission": Meaning.PERMISSION,
        "prompt": Meaning.PROMPT,
        "disable": Meaning.OFF,
    },
    ForeignFormat.GEMINI: {
        **_SHARED,
        "temperature": Meaning.TEMPERATURE,
        "max_turns": Meaning.ROUNDS,
        "timeout_mins": Meaning.MINUTES,
        "kind": Meaning.REMOTE,
    },
    ForeignFormat.COPILOT: _SHARED,
}

_MODES = "an order has a mode here: mcc run --mode plan"
_SERVERS = "tool servers cannot be named in an agent file here"
DROPPED: Mapping[str, str] = {
    "permissions": "what an agent may call stands in permission: write it as docs/how-to/allow-ask-deny.md says",
    "mcpServers": _SERVERS,
    "mcp-servers": _SERVERS,
    "mcp_servers": _SERVERS,
    "hooks": "nothing of an agent file runs as a program here",
    "memory": "agents here have no memory between orders",
    "skills": "an agent here has the skills of its workspace with the group rules_skills_read",
    "background": "every order here runs in the background",
    "isolation": "every order here has its own claim on its workspace; there are no copies of it",
    "color": "agents have no colour here",
    "top_p": "models are not asked with it here",
    "options": "options of a single provider belong in [models.NAME] of mcc.toml",
    "mode": "any agent here may be that of an order, and others may be allowed to delegate to it",
    "hidden": "every agent here is listed",
    "handoffs": "an agent here hands on only by delegation: name agents in spawns",
    "agents": "name the agents that it may delegate to in spawns",
    "target": "there is one place here where agents run",
    "infer": "who may delegate to it stands in the spawns of others",
    "argument-hint": "an order's prompt is its only argument",
    "initialPrompt": "an order's prompt is its only argument",
    "user-invocable": "any agent here may be that of an order",
    "disable-model-invocation": "who may delegate to it stands in the spawns of others",
    "display_name": "agents have one name here",
    "metadata": "nothing here reads it",
    "variant": "the model stands in model, how much it thinks in thinking",
}
"""Keys without an equivalent, with the reason."""

_READ, _SEARCH, _FIND, _LIST = ("read_file",), ("search_text",), ("find_files",), ("list_files",)
_EDIT, _WRITE, _PATCH = ("edit_file",), ("write_file",), ("apply_patch",)
SHELL = ("run_shell",)
TOOLS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("read", "notebookread", "read_file", "read_many_files", "view", "readfile"), _READ),
    **dict.fromkeys(("grep", "grep_search", "search_file_content", "textsearch", "usages"), _SEARCH),
    **dict.fromkeys(("glob", "filesearch"), _FIND),
    **dict.fromkeys(("ls", "list", "list_directory", "listdirectory"), _LIST),
    **dict.fromkeys(("search", "codebase"), (*_SEARCH, *_FIND)),
    **dict.fromkeys(("edit", "multiedit", "multi_edit", "edit_file", "replace", "notebookedit"), _EDIT),
    **dict.fromkeys(("write", "write_file", "new", "createfile"), _WRITE),
    **dict.fromkeys(("patch", "apply_patch"), _PATCH),
    "editfiles": (*_EDIT, *_WRITE),
    **dict.fromkeys(("bash", "shell", "execute", "powershell", "run_shell_command", "run_shell"), SHELL),
    **dict.fromkeys(("runcommands", "runtasks", "runtests", "terminal"), SHELL),
    **dict.fromkeys(("webfetch", "fetch", "web_fetch"), ("web_fetch",)),
    **dict.fromkeys(("websearch", "web_search", "google_web_search"), ("web_search",)),
    "web": ("web_fetch", "web_search"),
    **dict.fromkeys(("askuserquestion", "ask_user", "question"), ("ask_user",)),
    "changes": ("git_status", "git_diff"),
    "skill": ("skills_list", "skills_read"),
}
"""Tools of other systems, in lower case, with their equivalents."""

_JOBS = "shell_jobs tells what runs in the background, to every agent that has run_shell"
_LISTS = "agents here keep no list of things to do"
_DELEGATES = "name the agents that it may ask in spawns, and add the group delegation to tools"
MISSING: Mapping[str, str] = {
    **dict.fromkeys(("bashoutput", "killshell", "killbash", "terminallastcommand"), _JOBS),
    "githubrepo": "no tool here looks into repositories elsewhere",
    **dict.fromkeys(("todo", "todos", "todowrite", "todoread", "write_todos", "taskcreate", "taskupdate"), _LISTS),
    **dict.fromkeys(("task", "agent", "custom-agent", "runsubagent"), _DELEGATES),
    "exitplanmode": _MODES,
    **dict.fromkeys(("save_memory", "memory"), DROPPED["memory"]),
}
"""Tools of other systems without an equivalent, in lower case, with the reason."""

GIT_READS: Mapping[str, str] = {
    **{command: f"git_{command}" for command in ("status", "diff", "show", "log", "blame")},
    "branch": "git_branches",
    "ls-files": "git_ls_files",
}
"""Read-only git commands, with the equivalent tools."""


_FAMILIES_OF_TOOLS = frozenset({"read", "search", "edit", "execute", "web", "agent", "todo", "vscode"})
"""Prefixes before the / in Copilot's built-in tools; any other prefix is the name of a tool server."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of another system: `given` as written, its equivalents `ours`, or `why` there are none.

    `narrowed` is the text in brackets, which restricts the tool.
    """

    given: str
    ours: tuple[str, ...] = ()
    why: str = ""
    narrowed: str = ""


def tool_of(given: str) -> Tool:
    """Look up a tool as written in a file, such as `Read`, `Bash(git log:*)` or `mcp__tracker__find`."""
    name, _, inner = given.strip().partition("(")
    inner = inner.strip().removesuffix(")")
    key = name.strip().lower()
    if key in ("bash", "run_shell_command", "shell", "execute") and inner.startswith("git "):
        # A shell narrowed to reading git becomes the git tool that does just this, so that the agent needs no shell at
        # all.
        git = GIT_READS.get(inner[4:].replace(":", " ").split(" ")[0].strip("*"))
        if git is not None:
            return Tool(given, (git,))
    if key in TOOLS:
        return Tool(given, TOOLS[key], narrowed=inner)
    family, _, member = key.partition("/")
    if member and family in _FAMILIES_OF_TOOLS:
        known = member if member in TOOLS or member in MISSING else family
        if known in TOOLS:
            return Tool(given, TOOLS[known])
        return Tool(given, why=MISSING.get(known, "there is no such tool here"))
    if key.startswith(("mcp_", "mcp__")) or member or ":" in key:
        return Tool(given, why=_SERVERS)
    return Tool(given, why=MISSING.get(key, "there is no such tool here"))


@dataclass(frozen=True, slots=True)
class ReplacementModel:
    """The model to use instead of another system's: `name`, and why it differs from the given one, if it does."""

    name: str
    why: str = ""


INHERIT = "inherit"
_FAMILIES = ("sonnet", "opus", "haiku", "fable")


def model_of(given: str, aliases: Mapping[str, str]) -> ReplacementModel:
    """Look up a model. `aliases` are the operator's models, each with its provider's name for it."""
    word = given.partition(" (")[0].strip()
    if word.lower() in (INHERIT, "default", "auto", ""):
        return ReplacementModel(INHERIT)
    if word in aliases:
        return ReplacementModel(word)
    plain = _plain(word)
    near = [alias for alias, name in aliases.items() if _plain(name) == plain or _plain(alias) == plain]
    if not near and plain in _FAMILIES:
        near = [alias for alias, name in aliases.items() if plain in name.lower()]
    # Of several that fit none is chosen: models differ in price, and the operator pays.
    if len(near) == 1:
        return ReplacementModel(near[0], f"{word!r} is your model {near[0]!r}")
    meant = f"{', '.join(near)} may be meant" if near else "none of your models is that one"
    return ReplacementModel(
        INHERIT, f"{word!r}: {meant}, so it uses its parent's; name one of yours in model to change that"
    )


def _plain(name: str) -> str:
    """A model's name without provider, date and separators."""
    word = name.lower().rsplit("/", 1)[-1].removesuffix("-latest")
    letters = "".join(one for one in word if one.isalnum())
    return letters[:-8] if letters[-8:].isdecimal() and letters[-8:].startswith("20") else letters

"""docs/reference/protected-names.md: the names that no tool and no command changes, and what each makes run."""

from collections.abc import Iterator

from mcc.configuration.protected_names import ALWAYS, AS_OF, ENVIRONMENTS, SAMPLES, TABLE
from scripts.reference.markdown import code, table


def page() -> Iterator[str]:
    yield from ("# Protected names", "")
    yield "No tool and no command of an agent changes files and directories of these names, at any depth, in any case,"
    yield "with all that is below them, existing or not. Each makes a program run something, or follow what it says,"
    yield f"when a person does something else. As of {AS_OF}."
    yield ""
    yield "`[permission] unprotected` in the operator's `mcc.toml` takes names out"
    yield "([how](../how-to/change-files.md#protected-paths)); `protected` adds paths."
    yield ""
    programs = dict.fromkeys(one.program for one in TABLE)
    rows = ((program, ", ".join(code(one.name) for one in TABLE if one.program == program)) for program in programs)
    yield from table(("what runs or follows it", "names (`*` is any text)"), rows)
    yield f"Protected too: names that begin with `{ENVIRONMENTS}`, as they may hold secrets, except"
    yield f"{', '.join(map(code, sorted(SAMPLES)))}; in a git directory `config`, `config.worktree`, `hooks`, `info`"
    yield "and `commondir`. A git directory is one that is called `.git`, or that holds `HEAD` with `objects` and"
    yield "`refs` or with `commondir`, or that a `commondir` names."
    yield ""
    yield f"Never taken out: git directories, {', '.join(code(name) for name in sorted(ALWAYS) if name != '.git')}."
    yield ""
    yield "Not protected: what people run on purpose (`Makefile`, `package.json`, `conftest.py`), what chooses a"
    yield "version or a style (`.tool-versions`, `.nvmrc`, `.editorconfig`), and what a server runs after a push"
    yield "(`.github/workflows`). Add those that you want protected with `protected`, or have a rule"
    yield "[ask a person](../how-to/allow-ask-deny.md)."

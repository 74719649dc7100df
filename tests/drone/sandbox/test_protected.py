"""Protected paths: the fixed list, at any depth, existing or not, in any case; and the operator's globs."""

import pytest

from drone.sandbox.protection.protected import Protected


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/hooks",
        ".git/info/attributes",
        ".git/config.worktree",
        ".git/commondir",
        ".git",
        ".gitmodules",
        "a/b/c/.git/config",
        ".git/modules/part/config",
        ".git/worktrees/one/commondir",
        ".mcc/agents/master.md",
        ".mcc-workspace/id",
        "mcc.toml",
        "sub/mcc.toml",
        ".mcp.json",
        "AGENTS.md",
        "deep/down/agents.MD",
        "CLAUDE.md",
        ".env",
        ".env.production",
        "app/.ENV.local",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".bashrc",
        ".ripgreprc",
        "./.git//config",
        "x/../.git/config",
        ".git/refs/../config",
        ".GIT/Config",
        ".g\u200cit/config",
        ".\uff47it/config",
        ".claude/settings.json",
        "app/.Cursor/rules/a.mdc",
        ".codex/config.toml",
        ".gemini/settings.json",
        "opencode.json",
        "GEMINI.md",
        ".cursorrules",
        ".github/copilot-instructions.md",
        ".GitHub/Copilot-Instructions.md",
        "sub/.github/hooks/x.json",
        ".devcontainer/devcontainer.json",
        ".zed/tasks.json",
        ".fleet/run.json",
        ".mise.toml",
        "mise.production.toml",
        ".config/mise/config.toml",
        "sub/.cargo/config.toml",
        ".vim/coc-settings.json",
        ".ghci",
        "notes/jupyter_server_config.py",
        ".husky/pre-commit",
        ".pre-commit-config.yaml",
        ".nvim.lua",
        ".exrc",
        ".vimrc",
        ".gdbinit",
        ".lldbinit",
        ".yarnrc.yml",
        ".yarn/releases/yarn-4.cjs",
        ".npmrc",
        ".psqlrc",
        ".Rprofile",
        "team.code-workspace",
        ".hg/hgrc",
        ".\u200bclaude/settings.json",
    ],
)
def test_the_fixed_list_holds(path: str) -> None:
    refused = Protected().refuses(path)
    assert refused is not None and "protected" in refused and refused.isprintable()


@pytest.mark.parametrize(
    "path",
    [
        "src/main.py",
        ".gitignore",
        ".gitattributes",
        ".git/HEAD",
        ".git/refs/heads/config",
        ".git/logs/refs/heads/info",
        "config",
        "hooks/use.ts",
        "info",
        ".env.example",
        ".env.sample",
        ".env.template",
        "environment",
        ".environment",
        "agents.md.txt",
        "my.git/config",
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".tool-versions",
        ".nvmrc",
        ".editorconfig",
        "copilot-instructions.md",
        "config/fish/config.fish",
        ".yarn/cache/a.zip",
        ".hg/store/data",
        "mise.md",
        "package.json",
        "Makefile",
        "\u200b",
        "",
        ".",
    ],
)
def test_other_paths_may_be_written(path: str) -> None:
    assert Protected().refuses(path) is None


SHELLS = (
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .login .zshrc .zshenv .zprofile .zlogin "
    ".zlogout .kshrc .cshrc .tcshrc .inputrc"
)


@pytest.mark.parametrize("name", SHELLS.split())
def test_what_a_shell_reads_when_it_starts_is_protected_by_name(name: str) -> None:
    """The names are spelled out here: taken from the table, none could go missing."""
    assert Protected().refuses(name) is not None and Protected().refuses(f"home/{name}/x") is not None


@pytest.mark.parametrize(
    ("glob", "path", "holds"),
    [
        ("deploy/**", "deploy/live/site.yml", True),
        ("deploy/**", "Deploy/site.yml", True),
        ("deploy/**", "deploy", False),
        ("deploy/**", "app/deploy/site.yml", False),
        ("*.pem", "keys/live.PEM", True),
        ("*.pem", "live.pem/inside", True),
        ("*.pem", "live.pem.txt", False),
        ("a/*/b", "a/x/b", True),
        ("a/*/b", "a/x/y/b", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b/c", True),
        ("src/**.key", "src/x/y.key", True),
        ("src/**.key", "lib/x/y.key", False),
        ("a**b", "a/x/y/b", True),
        ("v?.lock", "v1.lock", True),
        ("v?.lock", "v12.lock", False),
        ("v1.2", "v1x2", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("/top.txt", "top.txt", True),
    ],
)
def test_the_operators_globs_are_protected_too(glob: str, path: str, holds: bool) -> None:
    protected = Protected([glob])
    assert (protected.refuses(path) is not None) is holds
    assert protected.covers(path, path.rpartition("/")[2]) is holds
    assert protected.refuses(".git/config") is not None


@pytest.mark.parametrize(
    ("glob", "path", "holds"),
    [
        (".pre-commit-config.yaml", ".pre-commit-config.yaml", False),
        (".pre-commit-config.yaml", "sub/.PRE-commit-config.yaml", False),
        (".pre-commit-config.yaml", ".husky/pre-commit", True),
        (".vscode", "app/.vscode/tasks.json", False),
        (".vscode", ".vscode/.idea/x", False),
        ("app/.vscode", ".vscode/tasks.json", True),
        ("tests/fixtures/**", "tests/fixtures/a/AGENTS.md", False),
        ("tests/fixtures/**", "AGENTS.md", True),
        ("**", "AGENTS.md", False),
        ("**", ".env.local", False),
        ("**", "a/.github/hooks/x", False),
        ("**", ".git/config", True),
        ("**", ".git", True),
        ("**", ".mcc/agents/a.md", True),
        ("**", ".mcc-workspace/id", True),
        ("**", "sub/mcc.toml", True),
        ("**", "deploy/site.yml", True),
    ],
)
def test_the_operator_takes_names_out_but_never_git_s_and_mcc_s(glob: str, path: str, holds: bool) -> None:
    assert (Protected(["deploy/**"], [glob]).refuses(path) is not None) is holds


def test_a_refusal_says_what_the_name_makes_run_and_how_it_is_taken_out() -> None:
    told = Protected().refuses("app/.husky/pre-commit") or ""
    assert "makes husky run" in told and "unprotected = ['.husky']" in told and "a person can change it" in told
    assert "unprotected" not in (Protected().refuses("mcc.toml") or "") + (Protected().refuses(".git/config") or "")


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("*.txt filter=run", True),
        ("*.txt text diff=run", True),
        ("*.txt -merge", True),
        ("*.txt !filter", True),
        ("*.txt FILTER=run", True),
        ("[attr]mine filter=run", True),
        ('"a b.txt" filter=run', True),
        ("  *.txt\tmerge=run", True),
        ("*\rfilter=run", True),
        *((f"* a={one} filter=run", True) for one in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\xa0\u3000"),
        ("\x0c# filter=run", True),
        ("\u2003# filter=run", True),
        ("*\x0bfilter=run", False),
        ("*.txt text eol=lf", False),
        ("filter text", False),
        ("*.png binary", False),
        ("# *.txt filter=run", False),
        ("*.txt different", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("before", ["", "* text=auto\r\n", "\ufeff"])
def test_attributes_name_no_program(line: str, refused: bool, before: str) -> None:
    told = Protected().refused_content("sub/.gitattributes", f"{before}{line}\n")
    assert (told is not None) is refused
    assert Protected().refused_content("sub/gitattributes.txt", f"{before}{line}\n") is None

"""Names of files that make an agent, an editor or another program run something, or follow what they say.

What is here: a program that a person starts for another reason (a shell that enters the directory, an editor that
opens it, an agent, `git commit`, a debugger, a package manager that only lists) takes commands or instructions from
that file. What is not: build files, tests and scripts, which people run on purpose (`Makefile`, `package.json`), files
that choose a version or a style (`.tool-versions`, `.nvmrc`, `.editorconfig`), and what a server runs after a push
(`.github/workflows`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mcc.contracts.similar import did_you_mean
from mcc.rules.patterns import matches_glob

AS_OF = "2026-11"
"""When the programs' own documentation was last gone through for this table."""

_MCC = "MCC"


class ProtectedName(NamedTuple):
    """`name`: a file or directory at any depth, with what is below it; also several parts, or one with `*` for any
    characters. `program`: what it makes run something, or obey."""

    name: str
    program: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.name.casefold().split("/"))


_BY_PROGRAM: Mapping[str, str] = {
    _MCC: ".mcc .mcc-workspace mcc.toml",
    "git": ".gitmodules .gitconfig .githooks .config/git",
    "agents of any maker": ".mcp.json AGENTS.md AGENTS.override.md AGENT.md .agents .agent .rules",
    "Claude Code": ".claude CLAUDE.md CLAUDE.local.md",
    "Cursor": ".cursor .cursorrules",
    "Codex": ".codex",
    "Gemini CLI": ".gemini GEMINI.md",
    "opencode": "opencode.json opencode.jsonc .opencode",
    "GitHub Copilot": (
        ".copilot .github/copilot-instructions.md .github/instructions .github/prompts .github/chatmodes "
        ".github/agents .github/skills .github/hooks"
    ),
    "Windsurf": ".windsurf .windsurfrules",
    "Cline": ".cline .clinerules",
    "Roo Code": ".roo .roomodes .roorules .roorules-*",
    "Kilo Code": ".kilocode .kilocodemodes .kilocoderules",
    "Continue": ".continue .continuerules",
    "aider": ".aider.conf.yml .aider.conf.yaml",
    "goose": ".goose .goosehints",
    "Amazon Q": ".amazonq",
    "Kiro": ".kiro",
    "Junie": ".junie",
    "JetBrains AI Assistant": ".aiassistant",
    "Augment": ".augment .augment-guidelines",
    "Qwen Code": ".qwen QWEN.md",
    "Crush": ".crush .crush.json crush.json CRUSH.md",
    "Trae": ".trae",
    "Factory": ".factory",
    "Warp": ".warp WARP.md",
    "OpenHands": ".openhands",
    "Amp": ".amp",
    "Vibe": ".vibe",
    "gptme": "gptme.toml",
    "Pi": ".pi",
    "VS Code": ".vscode *.code-workspace",
    "Visual Studio": ".vs",
    "JetBrains editors": ".idea",
    "Zed": ".zed",
    "Fleet": ".fleet",
    "Nova": ".nova",
    "Helix": ".helix",
    "Vim and Neovim": ".vimrc _vimrc .gvimrc .exrc .nvimrc .nvim.lua .lvimrc .ycm_extra_conf.py .vimspector.json",
    "plug-ins of Vim and Neovim": ".vim .nvim .neoconf.json .lazy.lua",
    "Lite XL": ".lite_project.lua",
    "Emacs": ".emacs .emacs.d .dir-locals.el .dir-locals-2.el",
    "Eclipse": ".externalToolBuilders",
    "dev containers and hosted editors": (
        ".devcontainer .devcontainer.json .gitpod.yml .codesandbox .replit .stackblitzrc .idx .devfile.yaml"
    ),
    "shells": (
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .login .zshrc .zshenv .zprofile "
        ".zlogin .zlogout .kshrc .cshrc .tcshrc .inputrc .config/fish"
    ),
    "direnv and autoenv": ".env .envrc .direnv .autoenv .autoenv.zsh .autoenv_leave.zsh",
    "mise": (
        ".mise.toml mise.toml .mise.*.toml mise.*.toml .mise mise/config.toml .config/mise .config/mise.toml .rtx.toml"
    ),
    "husky": ".husky",
    "pre-commit": ".pre-commit-config.yaml",
    "lefthook": "lefthook.yml lefthook.yaml lefthook.toml lefthook.json .lefthook* lefthook-local.*",
    "overcommit": ".overcommit.yml",
    "simple-git-hooks": ".simple-git-hooks.*",
    "GDB": ".gdbinit .gdbearlyinit",
    "LLDB": ".lldbinit",
    "debuggers of Python and Ruby": ".pdbrc .rdbgrc .byebugrc .irbrc .pryrc",
    "GHCi, IEx and Perl's debugger": ".ghci .iex.exs .perldb",
    "R": ".Rprofile .Renviron .RData",
    "Octave": ".octaverc",
    "npm and pnpm": ".npmrc .pnpmfile.cjs .pnpmfile.mjs",
    "Yarn": ".yarnrc .yarnrc.yml .yarn/releases .yarn/plugins",
    "Bundler": ".bundle/plugin",
    "Cargo": ".cargo/config .cargo/config.toml",
    "RVM": ".rvmrc",
    "Jupyter": "jupyter_*_config.py",
    "Review Board": ".reviewboardrc",
    "psql": ".psqlrc",
    "the MongoDB and SQLite shells": ".mongorc.js .mongoshrc.js .sqliterc",
    "screen and tmux": ".screenrc .tmux.conf",
    "SSH": ".ssh",
    "curl and wget": ".curlrc .wgetrc",
    "ripgrep": ".ripgreprc .rgrc",
    "Mercurial": ".hg/hgrc .hg/hgrc-not-shared .hg/sharedpath",
    "Jujutsu": ".jj/repo/config.toml",
    "Sapling": ".sl/config",
}

TABLE: tuple[ProtectedName, ...] = tuple(
    ProtectedName(name, program) for program, names in _BY_PROGRAM.items() for name in names.split()
)

ENVIRONMENTS = ".env."
"""Files whose names begin so are protected too, as they may hold secrets."""

SAMPLES = frozenset({".env.example", ".env.sample", ".env.template"})
"""Except these, which are examples."""

ALWAYS = frozenset({".git", *(one.name for one in TABLE if one.program == _MCC)})
"""Names whose protection nobody can take away."""


def problem_of(glob: str) -> str | None:
    """Why this glob takes no name out of protection, as a sentence; None where it may take out some."""
    parts = [part for part in glob.casefold().split("/") if part]
    if (always := next((part for part in parts if part in ALWAYS), None)) is not None:
        return f"{glob!r} cannot be unprotected: nobody takes {always} out, nor any other git directory or file of MCC"
    if not parts:
        return f"{glob!r} names nothing"
    names = {protected.name.casefold() for protected in TABLE}
    if (above := next((part for part in parts[:-1] if part in names), None)) is not None:
        return f"{glob!r} lies below {above}, which is protected as a whole: write {'/'.join(_up_to(parts, above))!r}"
    if _may_name(parts[-1]):
        return None
    meant = did_you_mean(parts[-1], names)
    return (
        f"{glob!r} names nothing that is protected{meant}. To take out all that lies in a directory, write "
        f"{glob.rstrip('/') + '/**'!r}"
    )


def _up_to(parts: Sequence[str], last: str) -> Iterator[str]:
    for part in parts:
        yield part
        if part == last:
            return


def _may_name(part: str) -> bool:
    """Whether the last part of a glob can match a name of the table, or all that lies in a directory."""
    if part == "**" or part.startswith(ENVIRONMENTS):
        return True
    known = {last for one in TABLE for last in one.parts[-1:]}
    return any(matches_glob(name, part) or matches_glob(part, name) for name in known)

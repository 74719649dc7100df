"""Random shell texts: wrappers, quoting and syntax of shells composed around `git push` or `git status`."""

import random
import shlex
from collections.abc import Callable

SIMPLE = ("git push", "git status", "git 'push'", "g\\it push", 'git "pu"sh', "git push origin", "git status -s")

LISTS = (
    "{}",
    "true; {}",
    "true && {}",
    "false || {}",
    "{} | cat",
    "true | {}",
    "! {}",
    "({})",
    "( {} )",
    "{{ {}; }}",
    "{{ {}\n}}",
    "if true; then {}; fi",
    "if {}; then :; fi",
    "while {}; do break; done",
    "for i in 1; do {}; done",
    "for ((i=0;i<1;i++)); do {}; done",
    "case x in y) ;; x) {};; esac",
    "case x in (x|y) {}\n;; esac",
    "f() {{ {}; }}; f",
    "function f {{ {}; }}; f",
    "f() ({}); f",
    "[[ a == a && -n x ]] && {}",
    "((1)) && {}",
    "x=$(({}) )",
    'echo "$({})"',
    "echo `true`; {}",
    "x=$({})",
    "cat <({}) > out",
    "echo ${{x:-$({})}}",
    "x=1; {}; echo $((x<<2))",
    "echo $((1+(2))); {}",
    "cat <<E\nit's \"$({})\nE",
    "cat <<'E'\n' ( `\nE\n{}",
    "cat <<-E; {}\n\t$x\n\tE",
    "echo a#b '#' \\# # it's\n{}",
    "echo \"a'b\" 'c\"d' \\' \\\" $'\\''; {}",
    "a=(1 2 '3 4'); {}",
    "a[1]=2; {}",
    "coproc {{ {}; }}; wait",
    "time {}",
    "time -p {}",
    "{{ {}; }} > out 2>&1 < /dev/null",
    "echo {{a,b}}; {}",
    "echo ${{x/a/'}}'}} ${{x#\\}}}}; {}",
    "{} &\nwait",
    "until {}; do break; done",
    "echo $[1+1]; {}",
    "select x in 1; do {}; break; done <<< 1",
    "shopt -s extglob\necho @(a|'b)') +(c); {}",
)
"""With a list of commands in the place of `{}`."""

TEXTS = (
    "bash -c {}",
    "bash -euo pipefail -c {}",
    "bash -O extglob -c {}",
    "bash --norc -c -- {}",
    "bash -c -x {} a b",
    "sh -c {}",
    "sh -ec {}",
    "dash -o nounset -c {}",
    "eval {}",
    "eval -- {}",
    "trap {} EXIT",
    "trap -- {} 0",
    "bash <<< {}",
    "echo {} | bash",
    "printf '%s\\n' {} | sh -s a",
    "env -i PATH=/usr/bin:/bin FORM=$FORM bash -c {}",
    'x={}; eval "$x"',
    'x={}; bash -c "$x"',
    "source <(echo {})",
    "flock F -c {}",
    "script -qc {} /dev/null",
    "find / -maxdepth 0 -exec sh -c {} \\;",
    "echo x | xargs -n1 bash -c {}",
    "nice -n 1 bash -o errexit -c {}",
    "timeout 2 env X=1 sh -c {}",
    "su -c {}",
    "mapfile -C {}'; :' -c 1 <<< x",
    'f() {{ eval "$1"; }}; f {}',
    'set -- {}; eval "$1"',
    "exec bash -c {}",
)
"""With one word in the place of `{}`, that is a text of commands."""

WORDS = (
    "env {}",
    "env -u X -C / A=1 {}",
    "command {}",
    "command -p -- {}",
    "exec -a x {}",
    "nohup {}",
    "nice -5 {}",
    "ionice -c3 {}",
    "timeout -k 1 2 {}",
    "stdbuf -oL {}",
    "setsid -w {}",
    "chroot / {}",
    "unshare -r {}",
    "linux64 -R {}",
    "setarch x86_64 {}",
    "flock F {}",
    "prlimit --nofile=99 {}",
    "taskset -c 0 {}",
    "time -p {}",
    "eval {}",
    "x=1 y='a b' {}",
    "x=$((1)) {}",
    ">out {}",
    "2>&1 {}",
    "&>out {}",
    "{{fd}}>out {}",
    "<<<x {}",
    "<<E {}\nx\nE\n",
    "xargs {} <<< x",
    "find / -maxdepth 0 -exec {} \\;",
    "find / -maxdepth 0 -execdir {} {{}} +",
    "builtin command {}",
    "jobs -x {}",
    "coproc {}",
    'set -- {}; "$@"',
    'a=({}); "${{a[@]}}"',
    'f() {{ "$@"; }}; f {}',
    "echo {} | xargs env",
    "nohup nice {} 2>/dev/null",
)
"""With the words of one simple command in the place of `{}`."""


def text(chance: random.Random) -> str:
    """A random text of a few levels."""
    found = chance.choice(SIMPLE)
    for _ in range(chance.randrange(4)):
        if "\n" not in found and all(one not in found for one in ";|&(){}<>#!`$"):
            found = chance.choice(WORDS).format(found)
        elif chance.random() < 0.5:
            found = chance.choice(TEXTS).format(chance.choice(QUOTES)(found))
        else:
            found = chance.choice(LISTS).format(found)
    if chance.random() < 0.6:
        found = chance.choice(LISTS).format(found)
    return mutated(found, chance) if chance.random() < 0.3 else found


def mutated(found: str, chance: random.Random) -> str:
    """The text with one piece removed, doubled, or put elsewhere."""
    place = chance.randrange(len(found))
    kind = chance.randrange(3)
    if kind == 0:
        return found[:place] + found[place + 1 :]
    piece = chance.choice(
        [" ", "\n", ";", "'", '"', "\\", "(", ")", "$", "`", "{", "}", "#", "<", "&", "|", "esac", "<<E\n"]
    )
    if kind == 1:
        return found[:place] + piece + found[place:]
    return found[:place] + piece + found[place + 1 :]


def _double(found: str) -> str:
    for one in '\\"$`':
        found = found.replace(one, f"\\{one}")
    return f'"{found}"'


def _escaped(found: str) -> str:
    return "$'" + found.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


QUOTES: tuple[Callable[[str], str], ...] = (shlex.quote, _double, _escaped)

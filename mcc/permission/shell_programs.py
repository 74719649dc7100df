"""Programs that run other commands: their options with arity, and what follows the options.

From the manuals of GNU coreutils 9, findutils 4.9, util-linux 2.38, procps 4, sudo 1.9, OpenDoas 6.8, strace 6,
OpenSSH 9 and GNU parallel. An option that is not listed makes the inner command unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Follows = Literal["command", "text", "nothing"]


@dataclass(frozen=True, slots=True)
class ShellProgram:
    """`flags`, `values` and `attached` are letters of options without a value, with one, and with one only in the same
    word. `long` are long options: `name` without a value, `name=` with one, `name?` with one only in the same word.

    `operands`: the words between the options and what follows them. `text`: options whose value is command text.
    `shells`: options with which, and `alone` "shell" that without further words, a shell reads its input; `ends`:
    options with which nothing is run. `assigns`: assignments may follow the options. `anywhere`: options may follow
    operands. `numbers`: an option may be a number, such as `-5`.
    """

    flags: str = ""
    values: str = ""
    attached: str = ""
    long: str = ""
    operands: int = 0
    follows: Follows = "command"
    alone: Literal["nothing", "shell"] = "nothing"
    text: frozenset[str] = frozenset()
    shells: frozenset[str] = frozenset()
    ends: frozenset[str] = frozenset()
    assigns: bool = False
    anywhere: bool = False
    numbers: bool = False

    def arity(self, letter: str) -> str:
        """ "" for a flag, "=" with a value, "?" with one only in the same word, "!" for an unknown letter."""
        if letter in self.flags:
            return ""
        return "=" if letter in self.values else "?" if letter in self.attached else "!"

    def long_option(self, name: str) -> tuple[str, str]:
        """The long option that begins with `name`, and its arity; "!" where there is none, or several that differ."""
        known = {one.rstrip("=?"): one[len(one.rstrip("=?")) :] for one in self.long.split()}
        if name in known:
            return name, known[name]
        near = [one for one in known if one.startswith(name)] if name else []
        return (near[0], known[near[0]]) if len(near) == 1 else (name, "!")


_HELP = " help version"
_ENDS = frozenset({"help", "version"})


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


_SETARCH = ShellProgram(
    flags="BFILRSTXZv3h",
    long="32bit fdpic-funcptrs short-inode addr-compat-layout addr-no-randomize whole-seconds sticky-timeouts "
    "read-implies-exec mmap-page-zero 3gb 4gb uname-2.6 verbose list" + _HELP,
    ends=_ENDS | {"list"},
    alone="shell",
)
_NAMESPACES = "mount? uts? ipc? net? pid? user? cgroup? time?"

PROGRAMS: Mapping[str, ShellProgram] = {
    "env": ShellProgram(
        "i0v",
        "uCS",
        long="ignore-environment null unset= chdir= split-string= block-signal? default-signal? ignore-signal? "
        "list-signal-handling debug" + _HELP,
        assigns=True,
        ends=_ENDS,
    ),
    "command": ShellProgram("pvV", ends=_names("v", "V")),
    "builtin": ShellProgram(),
    "exec": ShellProgram("cl", "a"),
    "noglob": ShellProgram(),
    "nocorrect": ShellProgram(),
    "nohup": ShellProgram(long=_HELP, ends=_ENDS),
    "nice": ShellProgram("", "n", long="adjustment=" + _HELP, numbers=True, ends=_ENDS),
    "ionice": ShellProgram(
        "t", "cnpPu", long="class= classdata= pid= pgid= uid= ignore" + _HELP, ends=_ENDS | {"p", "pid"}
    ),
    "timeout": ShellProgram(
        "vfp", "ks", long="kill-after= signal= foreground preserve-status verbose" + _HELP, operands=1, ends=_ENDS
    ),
    "stdbuf": ShellProgram("", "ioe", long="input= output= error=" + _HELP, ends=_ENDS),
    "setsid": ShellProgram("cfwhV", long="ctty fork wait" + _HELP, ends=_ENDS | {"h", "V"}),
    "sudo": ShellProgram(
        "ABbEHKklNnPSVvie s",
        "CDghpRrTtUu",
        long="askpass bell background close-from= preserve-env? chdir= edit group= set-home host= login list "
        "non-interactive preserve-groups prompt= role= chroot= reset-timestamp remove-timestamp no-update stdin shell "
        "type= command-timeout= other-user= user= validate" + _HELP,
        assigns=True,
        shells=_names("i", "s", "login", "shell"),
        ends=_ENDS | {"e", "l", "v", "K", "V", "edit", "list", "validate", "remove-timestamp"},
    ),
    "doas": ShellProgram("Lns", "Cu", shells=_names("s"), ends=_names("C", "L")),
    "su": ShellProgram(
        "lmpPfhV-",
        "cCgGsw",
        long="login command= session-command= fast group= supp-group= preserve-environment pty shell= "
        "whitelist-environment=" + _HELP,
        follows="nothing",
        alone="shell",
        anywhere=True,
        text=_names("c", "C", "command", "session-command"),
        ends=_ENDS,
    ),
    "runuser": ShellProgram(
        "lmpPfhV-",
        "cCgGswu",
        long="login command= session-command= fast group= supp-group= preserve-environment pty shell= user= "
        "whitelist-environment=" + _HELP,
        follows="nothing",
        alone="shell",
        anywhere=True,
        text=_names("c", "C", "command", "session-command"),
        ends=_ENDS,
    ),
    "pkexec": ShellProgram(long="user= disable-internal-agent keep-cwd" + _HELP, ends=_ENDS, alone="shell"),
    "gosu": ShellProgram(operands=1),
    "su-exec": ShellProgram(operands=1),
    "sg": ShellProgram(operands=1, follows="text", alone="shell"),
    "choom": ShellProgram("Vh", "np", long="adjust= pid=" + _HELP, ends=_ENDS | {"p", "pid"}),
    "uclampset": ShellProgram(
        "asRvhV", "mMp", long="all-tasks system reset-on-fork verbose pid= max= util-min= util-max=" + _HELP, ends=_ENDS
    ),
    "runcon": ShellProgram("c", "utrl", long="compute type= user= role= range=" + _HELP, operands=1, ends=_ENDS),
    "ssh-agent": ShellProgram("csDdkT", "aEOPt", ends=_names("k")),
    "chroot": ShellProgram(long="groups= userspec= skip-chdir" + _HELP, operands=1, alone="shell", ends=_ENDS),
    "fakeroot": ShellProgram("huv", "lsibc", long="lib= faked= unknown-is-real" + _HELP, ends=_ENDS, alone="shell"),
    "eatmydata": ShellProgram(),
    "dbus-run-session": ShellProgram(long="config-file= dbus-daemon=" + _HELP, ends=_ENDS),
    "xvfb-run": ShellProgram(
        "alh",
        "efnpsw",
        long="auto-servernum listen-tcp error-file= auth-file= server-num= xauth-protocol= server-args= wait= help",
        ends=_ENDS,
    ),
    "unbuffer": ShellProgram("p"),
    "faketime": ShellProgram("fm", "p", long="exclude-monotonic date-prog" + _HELP, operands=1, ends=_ENDS),
    "tini": ShellProgram("svwgh", "pe", ends=_names("h")),
    "dumb-init": ShellProgram("cv", "r", long="single-child rewrite= verbose" + _HELP, ends=_ENDS),
    "unshare": ShellProgram(
        "fcrhV",
        "RwSG",
        "muinpUCT",
        long=f"{_NAMESPACES} fork mount-proc? map-user= map-group= map-users= map-groups= map-root-user "
        "map-current-user map-auto propagation= setgroups= keep-caps root= wd= setuid= setgid= kill-child? monotonic= "
        "boottime=" + _HELP,
        alone="shell",
        ends=_ENDS,
    ),
    "nsenter": ShellProgram(
        "aFZhV",
        "tSG",
        "muinpCTUrw",
        long=f"{_NAMESPACES} all target= setuid= setgid= preserve-credentials no-fork follow-context root? wd? wdns= "
        + _HELP,
        alone="shell",
        ends=_ENDS,
    ),
    "strace": ShellProgram(
        "cCdfFhiknNqrtTvVwxyYzZD",
        "abeEIoOpPsSuUX",
        long="columns= detach-on= trace= abbrev= verbose= raw= signal= status= read= write= fault= inject= kvm= env= "
        "trace-path= summary-only summary summary-sort-by= summary-syscall-overhead= summary-wall-clock "
        "summary-columns= follow-forks output= output-append-mode output-separately quiet? attach= user= "
        "string-limit= strings-in-hex? decode-fds? decode-pids= absolute-timestamps? relative-timestamps? "
        "syscall-times? instruction-pointer stack-traces? syscall-number no-abbrev const-print-style= "
        "successful-only failed-only daemonize? interruptible= debug seccomp-bpf tips? argv0=" + _HELP,
        ends=_ENDS,
    ),
    "ltrace": ShellProgram("bcCfhiLrSttTVx", "aAeFlnopsuxX", ends=_names("h", "V")),
    "setarch": _SETARCH,
    **dict.fromkeys(("linux32", "linux64", "i386", "i486", "i586", "i686", "x86_64", "uname26", "arm64"), _SETARCH),
    "chrt": ShellProgram(
        "bdfiorRamvh",
        "TPD",
        long="batch deadline fifo idle other rr reset-on-fork sched-runtime= sched-period= sched-deadline= all-tasks "
        "max verbose pid" + _HELP,
        operands=1,
        ends=_ENDS | {"m", "max"},
    ),
    "taskset": ShellProgram("ach", long="all-tasks cpu-list" + _HELP, operands=1, ends=_ENDS),
    "prlimit": ShellProgram(
        "vh",
        "op",
        "cdefilmnqrstuvxy",
        long="pid= output= noheadings raw verbose core? data? nice? fsize? sigpending? memlock? rss? nofile? "
        "msgqueue? rtprio? stack? cpu? nproc? as? locks? rttime?" + _HELP,
        ends=_ENDS | {"p", "pid"},
    ),
    "setpriv": ShellProgram(
        "d",
        long="dump no-new-privs nnp ambient-caps= inh-caps= bounding-set= ruid= euid= reuid= rgid= egid= regid= "
        "clear-groups keep-groups init-groups groups= securebits= pdeathsig= selinux-label= apparmor-profile= "
        "reset-env" + _HELP,
        ends=_ENDS | {"d", "dump"},
    ),
    "flock": ShellProgram(
        "sxeunoFhV",
        "wEc",
        long="shared exclusive unlock nonblock nb timeout= wait= conflict-exit-code= close no-fork verbose command="
        + _HELP,
        operands=1,
        text=_names("c", "command"),
        ends=_ENDS,
    ),
    "script": ShellProgram(
        "aefqhV",
        "cEIOBTmo",
        "t",
        long="append command= return flush force echo= log-in= log-out= log-io= log-timing= logging-format= "
        "output-limit= quiet timing?" + _HELP,
        follows="nothing",
        alone="shell",
        anywhere=True,
        text=_names("c", "command"),
        ends=_ENDS,
    ),
    "watch": ShellProgram(
        "bcegprtwxhv",
        "nq",
        "d",
        long="beep color differences? errexit chgexit interval= precise no-rerun equexit= no-title no-wrap exec"
        + _HELP,
        follows="text",
        ends=_ENDS,
    ),
    "time": ShellProgram("apvqhV", "of", long="append output= format= portability verbose quiet" + _HELP, ends=_ENDS),
    "ssh": ShellProgram(
        "46AaCfGgKkMNnqsTtVvXxYy",
        "BbcDEeFIiJLlmOoPpQRSWw",
        operands=1,
        follows="text",
        anywhere=False,
        ends=_names("V", "G", "N", "Q", "O"),
    ),
    "xargs": ShellProgram(
        "0oprtx",
        "adEILnPs",
        "eil",
        long="null arg-file= delimiter= eof? replace? max-lines? max-args= open-tty max-procs= interactive "
        "no-run-if-empty max-chars= show-limits verbose exit process-slot-var=" + _HELP,
        ends=_ENDS,
    ),
    "parallel": ShellProgram(
        "0kmqrtuvX",
        "aCdEIjLnNPsS",
        long="null arg-file= jobs= max-procs= keep-order ungroup line-buffer lb linebuffer group tag bar progress eta "
        "dry-run dryrun halt= halt-on-error= joblog= resume resume-failed results= retries= timeout= delay= load= "
        "memfree= colsep= delimiter= no-run-if-empty max-args= max-replace-args= max-lines? max-chars= will-cite "
        "silent gnu quote verbose shuf xargs link plain nice= tmpdir= wd= workdir= env= sshlogin= trim= noswap "
        "no-notice bg fg semaphore id= header= number-of-cores number-of-cpus" + _HELP,
        ends=_ENDS | {"number-of-cores", "number-of-cpus"},
    ),
    "busybox": ShellProgram(long="list list-full install" + _HELP, ends=_ENDS | {"list", "list-full", "install"}),
    "toybox": ShellProgram(long="long" + _HELP, ends=_ENDS | {"long"}),
    "jobs": ShellProgram("lnprsx", ends=_names("l", "n", "p", "r", "s")),
}
"""By the name of the program. `exec`, `command`, `builtin`, `jobs`: builtins of shells."""

_BASH = ShellProgram(
    "abefhkmnptuvxBCEHPTcilrsD",
    "oO",
    long="debug debugger dump-po-strings dump-strings init-file= rcfile= login noediting noprofile norc posix "
    "pretty-print restricted verbose wordexp protected" + _HELP,
    ends=_ENDS,
)
_SH = ShellProgram("abCefhIiLlmnpstuVvxEc", "o", long="login posix" + _HELP, ends=_ENDS)
_KSH = ShellProgram("abCefhiklmnprstuvxDEGPXc", "oR", long=_HELP, ends=_ENDS)
_ZSH = ShellProgram("abcdefghiklmnpqrstuvwxyCDEFGHIJKLMNOPQRSTUVWXYZ", "o", long="emulate=" + _HELP, ends=_ENDS)

SHELLS: Mapping[str, ShellProgram] = {
    **dict.fromkeys(("bash", "rbash"), _BASH),
    **dict.fromkeys(("sh", "dash", "ash"), _SH),
    **dict.fromkeys(("ksh", "ksh93", "mksh", "lksh", "oksh", "pdksh", "yash", "rksh"), _KSH),
    **dict.fromkeys(("zsh", "rzsh"), _ZSH),
}
"""Shells, whose `-c` says that the first operand is command text."""

OTHER_SHELLS = frozenset(
    {"csh", "tcsh", "fish", "elvish", "nu", "xonsh", "pwsh", "powershell", "rc", "es", "osh", "ysh"}
)
"""Shells with a language of their own: what they run is unknown."""

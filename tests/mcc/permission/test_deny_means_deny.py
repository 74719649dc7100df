"""What the real bash runs is denied where a rule denies it, and everyday commands are not."""

import random
import shutil
from pathlib import Path

import pytest

from mcc.contracts.permission import PermissionRule, Word
from mcc.permission.commands import MOST_CHARACTERS
from mcc.permission.judging import PermissionRequest, judge
from mcc.permission.layers import Layer
from tests.mcc.permission.real_bash import forms, sandboxed, that_push
from tests.mcc.permission.shell_texts import text

PUSHING = 'argv[0] == "git" && size(argv) > 1 && argv[1] == "push"'
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed here")


def judged(command: str, then: Word = "deny") -> Word:
    rules = (PermissionRule(when=PUSHING, then=then),)
    request = PermissionRequest("run_shell", "shell_write", "execute", {"command": command})
    return judge(request, [Layer("operator", {"run_shell": rules})]).word


@needs_bash
def test_whatever_the_real_bash_ran_is_denied(tmp_path: Path) -> None:
    texts = forms("pushing.txt")
    ran = that_push(texts, tmp_path)
    assert len(ran) > 850
    assert [texts[place] for place in sorted(ran) if judged(texts[place]) != "deny"] == []


@needs_bash
@pytest.mark.skipif(
    not sandboxed(), reason="bubblewrap does not work here, and these texts name programs by their path"
)
def test_what_is_left_to_the_sandbox_is_on_the_page_by_name(tmp_path: Path) -> None:
    page = Path("docs/how-to/allow-ask-deny.md").read_text("utf-8")
    left = [one.partition(" :: ") for one in forms("left_to_the_sandbox.txt")]
    assert [name for name, _, _ in left if f"- {name}" not in page] == []
    ran = that_push([form for _, _, form in left], tmp_path)
    assert {left[place][0] for place in ran} == {name for name, _, _ in left}


@needs_bash
@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_the_real_bash_ran_of_random_texts_is_denied(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    texts = list(dict.fromkeys(text(chance) for _ in range(150)))
    ran = that_push(texts, tmp_path)
    assert len(ran) > 30
    assert [texts[place] for place in sorted(ran) if judged(texts[place]) != "deny"] == []


@pytest.mark.parametrize("then", ["deny", "ask"])
def test_everyday_commands_are_neither_denied_nor_asked_about(then: Word) -> None:
    texts = forms("everyday.txt")
    assert len(texts) > 400
    assert [one for one in texts if judged(one, then) != "allow"] == []


def test_a_command_that_comes_from_elsewhere_is_denied_and_asked_about() -> None:
    for command in forms("elsewhere.txt"):
        assert (judged(command), judged(command, "ask")) == ("deny", "ask")


@needs_bash
def test_no_everyday_command_runs_what_is_denied(tmp_path: Path) -> None:
    quiet = forms("still.txt")
    assert that_push(quiet, tmp_path) == set()
    assert [one for one in quiet if judged(one) != "allow"] == []


@pytest.mark.parametrize("seed", range(3))
def test_mutilated_texts_are_judged_without_an_error(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(40):
        judged(text(chance))
    whole = "\n".join(forms("pushing.txt"))
    start = chance.randrange(len(whole) - MOST_CHARACTERS)
    assert judged(whole[start : start + MOST_CHARACTERS]) == "deny"


SAID = {
    "bash < x": ("a shell reads its input", "give the commands after `-c`"),
    "bash --other -c ls": ("bash has options that are not known", "call the inner command by itself"),
    'eval "$x"': ("only a shell could expand", "single quotes"),
    "cat a | xargs": ("xargs has no command of its own", "write the command of xargs, such as `xargs echo`"),
    "x=a; x=; bash $x f": ("a variable that is a word of a command may be empty", "into double quotes"),
    "git $X": ("Its further words are not known before it runs", "write the words themselves"),
    "$X push": ("The command that would run is not known before it runs", "write the words themselves"),
    "git pu*": ("in place of a pattern", "write the words themselves"),
}


@pytest.mark.parametrize(("command", "sentences"), SAID.items())
def test_a_denial_says_what_was_unknown_and_how_to_write_it(command: str, sentences: tuple[str, ...]) -> None:
    rules = (PermissionRule(when=PUSHING, then="deny"),)
    request = PermissionRequest("run_shell", "shell_write", "execute", {"command": command})
    message = judge(request, [Layer("operator", {"run_shell": rules})]).message
    assert all(one in message for one in sentences), message

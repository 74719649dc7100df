"""Parsing of shell commands: the words of each simple command, and what makes it not plain."""

import shlex
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcc.permission.commands import MOST_CHARACTERS, MOST_JUDGED, MOST_PARTS, commands_in
from mcc.permission.simple_commands import SimpleCommand

PLAIN = {
    "git push": [["git", "push"]],
    "a && b || c; d | e |& f & g\nh": [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"], ["h"]],
    'echo "a b" c\\ d \'e "f\' "\\$g\\""': [["echo", "a b", "c d", 'e "f', '$g"']],
    "a \\\n b": [["a", "b"]],
    "(cd x && make)": [["cd", "x"], ["make"]],
    "{ make; }; ! a": [["make"], ["a"]],
    "a b # c; d\ne": [["a", "b"], ["e"]],
    "a#b": [["a#b"]],
    "pytest 2>&1 >/dev/null </dev/null": [["pytest"]],
    "[ -f x ] && echo $": [["[", "-f", "x", "]"], ["echo", "$"]],
    "a '' \"\"": [["a", "", ""]],
    "": [],
}


@pytest.mark.parametrize(("text", "words"), PLAIN.items(), ids=repr)
def test_plain_commands_are_their_words(text: str, words: list[list[str]]) -> None:
    assert commands_in(text) == tuple(SimpleCommand(tuple(one)) for one in words)


def test_a_here_document_is_no_command() -> None:
    words = [one.argv for one in commands_in("cat <<'E' && a\ngit push\n\tE\nE\nb <<-X\nc\n\tX\nd")]
    assert words == [("cat",), ("a",), ("b",), ("d",)]


NOT_PLAIN = (
    "pytest $(a)",
    "pytest `a`",
    'pytest "$(a)"',
    "pytest $X",
    "pytest ${x@P}",
    "pytest$IFS-x",
    "pytest $'\\x41'",
    "pytest $((1))",
    "pytest <(a)",
    "pytest > out",
    "pytest >> out",
    "pytest &> out",
    "pytest < in",
    "pytest <<< in",
    "pytest 3<> x",
    "pytest <<EOF\nx\nEOF",
    "X=1 pytest",
    "X+=1 pytest",
    "time pytest",
    "if pytest; then pytest; fi",
    "while pytest; do pytest; done",
    "eval pytest",
    "source pytest",
    ". pytest",
    "exec pytest",
    "env pytest",
    "sudo -u x pytest",
    "xargs pytest",
    "sh -c pytest",
    "bash -lc pytest",
    "/bin/sh -c pytest",
    "timeout 5 pytest",
    "find . -exec pytest ;",
    "pytest '",
    'pytest "',
    "pytest \\",
    "pytest (a)",
    "pytest() { a; }",
    "case x in y) pytest;; esac",
    "pytest\ra",
    "pytest \x00",
    "pytest \u202e",
    "pytest\u00a0a",
    "pytest $[1]",
    "pytest" + " && pytest" * MOST_PARTS,
    "pytest" + " " * MOST_CHARACTERS,
)


@pytest.mark.parametrize("text", NOT_PLAIN, ids=lambda text: repr(text[:40]))
def test_what_is_not_plainly_understood_is_not_plain_and_says_why(text: str) -> None:
    found = commands_in(text)
    assert not any(one.plain for one in found if one.argv[:1] == ("pytest",))
    assert any(not one.plain and one.why for one in found)


HIDDEN = (
    "a && git push",
    "echo $(git push)",
    "echo `git push`",
    'echo "x $(git push) y"',
    'echo "${x:-$(git push)}"',
    "cat <(git push)",
    "eval 'git push'",
    "eval git push",
    'bash -c "ls; git push"',
    "env X=1 git push",
    "sudo -u me nohup git push",
    "sudo -u me sh -c 'git push'",
    "xargs -n 1 git push",
    "find . -exec git push ;",
    "(git push)",
    "{ git push; }",
    "if true; then git push; fi",
    "trap 'git push' EXIT",
    "g''it pu\\sh",
    "git \\\n push",
    "a <<E\nb\nE\ngit push",
    "a <<E\n$(git push)\nE",
    "f() { git push; }; f",
    "case x in y) git push;; esac",
    "a; " * (MOST_PARTS + 5) + "git push",
)


@pytest.mark.parametrize("text", HIDDEN, ids=lambda text: repr(text[:40]))
def test_a_command_that_stands_within_another_one_is_found(text: str) -> None:
    assert any(one.argv == ("git", "push") for one in commands_in(text))


@pytest.mark.parametrize(
    "text",
    [
        "$X push",
        "eval $X",
        "env $X",
        "( " * 30 + "git push" + " )" * 30,
        "env " * 60 + "git push",
    ],
)
def test_where_it_cannot_be_found_something_is_told_of_which_no_word_is_known(text: str) -> None:
    assert any(not one.argv and not one.whole and not one.plain for one in commands_in(text))


@settings(max_examples=40)
@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=6))
@example(["a", "if", "x=1", "~", "*", "{a,b}", "$x", "#", "!"])
def test_words_in_quotes_are_these_words(words: list[str]) -> None:
    """Words quoted by `shlex.join` are read back; the first word is no program that runs others."""
    found = commands_in(shlex.join(["p", *words]))
    assert len(found) == 1 and found[0].argv == ("p", *words) and found[0].whole


PIECES = [
    *("git", " ", "push", "$(", ")", "`", "'", '"', "\\", "\n", ";", "&", "|", "<<EOF", "EOF", "${", "}", "{", "("),
    *("eval ", "sh -c ", "env ", "*", "~", "=", "#", "$", "\r", "a", "2>&1", ">", "<(", "[[", "then", "$'", "-exec "),
    *("((", "))", "]]", "case x in ", "esac", ";;", "f() ", "a=(", "a[", "]", "@(", "{fd}>", "xargs ", "trap ", "\\\n"),
]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=200))
def test_any_text_is_taken_apart(text: str) -> None:
    found = commands_in(text)
    assert len(found) <= MOST_JUDGED + 1
    assert all(one.plain is not bool(one.why) for one in found)


GROWING = (
    *("env eval ", "eval 'sh -c \"", "sudo find -exec eval env ", "a;", "`", "${", '"$(', "<<a\n", "1>", "a=b "),
    *(
        "((",
        "$((",
        "case x in x) ",
        "[[ a ",
        "f() { ",
        "a[",
        "@(",
        'env "$x" ',
        "x='a[$(b)]' ",
        "((x)) ",
        "a=(",
        "$\\\n",
    ),
)


@pytest.mark.parametrize("piece", GROWING)
def test_twice_the_text_takes_twice_the_work(piece: str) -> None:
    text = (piece * 10_000)[:10_000]
    assert work(text) < 2.5 * work(text[:5_000]) + 10_000


def work(text: str) -> int:
    """The number of function calls, including built-in ones, for parsing the text."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        commands_in(text)
    finally:
        sys.setprofile(before)
    return calls

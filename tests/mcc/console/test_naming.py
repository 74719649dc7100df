"""Short names: what is bound to each stays the same, in every scope that a script can have."""

import pytest

from mcc.console.naming import Unreadable
from mcc.console.squeezing import squeezed, squeezed_apart


@pytest.mark.parametrize(
    "script, short",
    [
        # A property and a key are no names, what has only a key gets its value.
        ("const long = 1; f(long, other.long, { long: long, long });", "let ee=1;f(ee,other.long,{long:ee,long:ee});"),
        ("const put = (name) => name;", "let ee=e=>e;"),
        ("const put = async (name, more = name) => more;", "let ee=async(e,t=e)=>t;"),
        ("const fold = ({ text, key: word = text, ...rest }) => g(text, word, rest);", None),
        ("const node = [1]; for (const each of node) { each; }", "let ee=[1];for(let e of ee){e}"),
        ("const word = x ? word : { word: 1 };", "let ee=x?ee:{word:1};"),
        ("const { hooks } = $hooks; hooks; hooks;", "let{hooks:ee}=$hooks;ee;ee;"),
        ("const Box = 1; html`<${ Box } Box=${ Box }>Box</${ Box }>`", 'let ee=1;h(ee,{Box:ee},"Box")'),
        (
            "const unknown = known + `${ unknown } unknown ${ `${ known }` }`;",
            "let ee=known+`${ee} unknown ${`${known}`}`;",
        ),
        ("function one(left) { try { two } catch (left) { left; } }", "function ee(e){try{two}catch(e){e}}"),
        (
            "class Fault extends Error { constructor(text) { super(text); } }",
            "class ee extends Error{constructor(e){super(e)}}",
        ),
    ],
)
def test_a_name_is_short_wherever_it_stands_for_itself(script: str, short: str | None) -> None:
    assert squeezed(script) == (short or "let ee=({text:e,key:t=e,...r})=>g(e,t,r);")


def test_what_is_declared_inside_takes_no_name_that_is_needed_there() -> None:
    script = "const all = (outer, other) => outer((inner) => inner + other, (inner) => inner);"
    assert squeezed(script) == "let ee=(e,t)=>e(e=>e+t,e=>e);"
    assert squeezed("const all = (outer) => (inner) => outer(inner);") == "let ee=e=>t=>e(t);"


def test_a_name_counts_in_its_block_and_also_before_its_declaration() -> None:
    script = "function run(item) { const later = () => made; { const item = 1; item; } const made = item; later; }"
    assert squeezed(script) == "function ee(e){let t=()=>r;{let e=1;e}let r=e;t}"


def test_what_nothing_declares_keeps_its_name_and_no_other_gets_it() -> None:
    assert squeezed("const long = (event) => e(event, t, close);") == "let ee=r=>e(r,t,close);"


def test_parameters_and_what_a_body_declares_have_different_names() -> None:
    assert squeezed("const run = (given) => { const made = 1; return made; };") == "let ee=e=>{let t=1;return t};"


def test_a_second_script_imports_what_it_needs_of_the_first_under_its_short_name() -> None:
    first = "const one = 1; const two = 2; function three(own) { return own; }"
    second = "const four = two; three((own) => ({ two: own, own })); fetch(four);"
    assert squeezed_apart(first, second, "first.js") == (
        "let es=1;let ee=2;function et(e){return e}\nexport{ee,et};",
        'import{ee,et}from"./first.js";let er=ee;et(e=>({two:e,own:e}));fetch(er);',
    )
    # What is written in the place of a template is needed as well.
    drawn = squeezed_apart("function h() {}", "html`<p></p>`", "first.js")
    assert drawn == ("function h(){}\nexport{h};", 'import{h}from"./first.js";h("p")')
    assert squeezed_apart("const one = 1;", "two();", "first.js") == ("let ee=1;", "two();")


@pytest.mark.parametrize("script", ["for (const a of b) f(a);", "f = (a) => a\n  / b;", "f(a];)", "(a", "a)"])
def test_what_cannot_be_read_here_is_refused(script: str) -> None:
    with pytest.raises(Unreadable):
        squeezed(script)

"""A script without its blanks: what it says stays, wherever a blank or the end of a line is part of it."""

import pytest

from mcc.console.naming import Unreadable
from mcc.console.squeezing import squeezed


@pytest.mark.parametrize(
    "script, kept",
    [
        ("const a = (b, c) => b + c;", "let a=(b,c)=>b+c;"),
        ("f(\n  a,\n  b,\n);", "f(a,b);"),
        ("const f = () => {\n  go;\n};", "let f=()=>{go};"),
        ("a + +b - -c", "a+ +b- -c"),
        ("x++\ny", "x++\ny"),
        ("a = b +\n  c /\n  d", "a=b+c/d"),
        ("return\nx", "return\nx"),
        ("if (a) {\n  b;\n}\nelse\n  c;", "if(a){b}else\nc;"),
        ("for (;;) {\n  a;\n}", "for(;;){a}"),
        ("{ while (a);\n}", "{while(a);}"),
        ("{ if (a) f(b);\n}", "{if(a)f(b)}"),
        ("[, , a]", "[,,a]"),
        ("in_ = a in b", "in_=a in b"),
        ("let A_B = _c", "let ee=_c"),
        ("$ of $", "$ of $"),
        ("a = true || { true: false } || 5_000", "a=!0||{true:!1}||5000"),
        ('\'it is\' + "a \\" b" + c', '\'it is\'+"a \\" b"+c'),
        ("a = /[/ ] +/g.test( b ) / 2 / c", "a=/[/ ] +/g.test(b)/2/c"),
        ("return / /", "return/ /"),
        ("a // one\nb", "a\nb"),
        ("return /* one\n */ b", "return b"),
        ("a = async (b) => c", "a=async b=>c"),
        ("a; // no 'string'\nb; /* no\n`template */ c", "a;b;c"),
        ("`a  ${ b + `${ { c: 1 } }  ` }\n  d`", "`a  ${b+`${{c:1}}  `}\n  d`"),
        ("`$ {a} \\` ${ b }`", "`$ {a} \\` ${b}`"),
    ],
)
def test_what_a_script_says_stays_and_the_blanks_between_go(script: str, kept: str) -> None:
    assert squeezed(script) == kept


@pytest.mark.parametrize(
    "markup, calls",
    [
        ('<a\n  href=${ x }\n  title="a  b"\n>\n  text\n</a>', 'h("a",{href:x,title:"a  b"},"text")'),
        ("<b>one</b> <i>two</i>", '[h("b","one")," ",h("i","two")]'),
        ("<p> a ${ b } c </p>", 'h("p"," a ",b," c ")'),
        ("\n<p>\n  a\n  b\n</p>\n", 'h("p","a b")'),
        ("<p>\n  a${ ' ' }\n  b${ \" \" }\n</p>", 'h("p","a",\' \',"b ")'),
        ('<${ Box } ...${ all } open />\n${ " " }\nc', '[h(Box,{...all,open:!0})," c"]'),
        ("<${ Box } ...${ all }><br /></${ Box }>", 'h(Box,all,h("br"))'),
        ("<p title=\"a > 'b'\" >c</p>", 'h("p",{title:"a > \'b\'"},"c")'),
        ('<p title=\'a "b"\'>"c"</p>', r'h("p",{title:"a \"b\""},"\"c\"")'),
        ('<p aria-label="" aria-busy title="a ${ b }" />', 'h("p",{"aria-label":"","aria-busy":!0,title:`a ${b}`})'),
        ('<p class="a b-c" id="d">${ e }</p>', 'h("p a b-c",{id:"d"},e)'),
        ('<p class="a">b</p><p class=${ a }>b</p>', '[h("p a","b"),h("p",{class:a},"b")]'),
        ('<${ Box } class="a">b</${ Box }>', 'h(Box,{class:"a"},"b")'),
        ("<${ Box }>b</${ Box }>", 'h(Box,0,"b")'),
        ('<p id="a"/>', 'h("p",{id:"a"})'),
        ("<p a=${ b /c/ d }>e</p>", 'h("p",{a:b/c/d},"e")'),
        ("<p a=${ f({}) }>e</p>", 'h("p",{a:f({})},"e")'),
        ("<a>${html`\n  <b  x />\n`}</a>", 'h("a",0,h("b",{x:!0}))'),
        ("", "[]"),
    ],
)
def test_in_the_place_of_a_template_stand_the_calls_that_make_its_elements(markup: str, calls: str) -> None:
    assert squeezed(f"html`{markup}`") == calls


@pytest.mark.parametrize("markup", ["<a></a></a>", "<a>", "<a b=c></a>", "<a b='c'>"])
def test_a_template_that_is_none_is_refused(markup: str) -> None:
    with pytest.raises(Unreadable):
        squeezed(f"html`{markup}`")


@pytest.mark.parametrize("script", ["'a", "a = /b", "`a", "`${a", "html`<a", "html`<a>", "html`<a b='", "/* a", "}"])
def test_a_script_that_ends_in_the_middle_is_refused(script: str) -> None:
    with pytest.raises(Unreadable):
        squeezed(script)

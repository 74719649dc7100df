"""Our modules as one script: each before those that need it, and nothing in it that meant something else before."""

import pytest

from mcc.console.joining import NotJoinable, joined, unpacked


def test_a_module_stands_before_those_that_import_it_and_what_all_import_from_elsewhere_is_imported_once() -> None:
    script = joined(
        {
            "app": 'import { draw } from "./look.js";\nimport { h } from "./preact.js";\ndraw(h);',
            "look": 'import { h } from "./preact.js";\nexport const draw = (shape) => h(shape);',
        }
    )
    assert script == 'import { h } from "./preact.js";\nconst draw = (shape) => h(shape);\ndraw(h);\n'


def test_comments_exports_and_indents_are_left_out_and_everything_else_stays_as_it_is() -> None:
    source = "// Why it is so.\nexport function f() {\n  // here too\n  return 'a // b';\n}\nexport { f };"
    assert joined({"app": source}) == "function f() {\nreturn 'a // b';\n}\n"


def test_a_long_import_may_be_wrapped() -> None:
    wrapped = 'import {\n  b,\n  c,\n} from "./b.js";\nb(c);'
    assert joined({"a": wrapped, "b": "export const b = 1, c = 2;"}) == "const b = 1, c = 2;\nb(c);\n"


def test_modules_run_in_the_order_in_which_they_are_imported() -> None:
    modules = {
        "app": 'import { b } from "./b.js";\nimport { a } from "./a.js";\nb(a);',
        "a": 'import { c } from "./c.js";\nexport const a = c;',
        "b": "export const b = 1;",
        "c": "export const c = 2;",
    }
    assert joined(modules) == "const b = 1;\nconst c = 2;\nconst a = c;\nb(a);\n"
    assert joined(dict(reversed(modules.items()))) == joined(modules)


def test_what_a_script_that_is_run_before_declares_is_used_as_it_is() -> None:
    before = {"base": "export const a = 1;"}
    more = 'import { a } from "../island/base.js";\nimport { b } from "./b.js";\na(b);'
    later = {"more": more, "b": "export const b = 2;"}
    assert joined(later, before=before) == "const b = 2;\na(b);\n"
    with pytest.raises(NotJoinable, match="b and base both declare b"):
        joined(later, before={"base": "export async function b() {}"})
    with pytest.raises(NotJoinable, match="another name"):
        joined({"more": 'import { a as b } from "../island/base.js";'}, before=before)


def test_what_others_packed_is_taken_from_an_object_of_what_it_exports() -> None:
    packed = {
        "hooks": 'import{options as n}from"./preact.js";var r=n;export{r as useState,n};',
        "preact": "var n=1;export{n as options};",
        "htm": "var n=2;\nexport default function(s){return n}",
    }
    ours = 'import htm from "./htm.js";\nimport { useState } from "./hooks.js";\nhtm(useState);'
    assert unpacked(packed, {"app": ours}).splitlines() == [
        "const $preact=(()=>{var n=1;return{options:n}})();",
        "const $hooks=(()=>{const{options:n}=$preact;var r=n;return{useState:r}})();",
        "const $htm=(()=>{var n=2;",
        "const $default=function(s){return n}",
        "return{default:$default}})();",
    ]
    assert joined({"app": ours}, packed) == (
        "const { default: htm } = $htm;\nconst { useState } = $hooks;\nhtm(useState);\n"
    )


def test_functions_that_only_unwanted_exports_need_are_left_out() -> None:
    packed = {
        "tools": 'function a(){return"}"+b()}function b(){return x.c}function c(){return d()}function d(){return 1}'
        "export{a as used,c as unused};"
    }
    ours = 'import { used } from "./tools.js";\nused();'
    assert unpacked(packed, {"app": ours}) == (
        'const $tools=(()=>{function a(){return"}"+b()}function b(){return x.c}return{used:a}})();\n'
    )


@pytest.mark.parametrize(
    "modules, named",
    [
        ({"a": 'import { b } from "./b.js";', "b": 'import { a } from "./a.js";'}, "one another"),
        ({"a": 'import { b as c } from "./b.js";', "b": "export const b = 1;"}, "another name"),
        ({"a": 'import b from "./b.js";', "b": "export const b = 1;"}, "another name"),
        ({"a": 'import * as c from "./b.js";', "b": "export const b = 1;"}, "otherwise"),
        ({"a": "const b = 1;", "b": "export const b = 1;"}, "both declare b"),
        ({"a": "function b() {}", "b": "export async function b() {}"}, "both declare b"),
    ],
)
def test_modules_that_would_mean_something_else_together_are_refused(modules: dict[str, str], named: str) -> None:
    with pytest.raises(NotJoinable, match=named):
        joined(modules)

"""Many files for who writes them, one for who loads them."""

from __future__ import annotations

import re

import pytest

from riverui.web.assets import STATIC
from riverui.web.http.bundles import ENTRIES, BundleError, bundle

SOURCES = {
    path.relative_to(STATIC).as_posix(): path.read_bytes()
    for folder in ("css", "js")
    for path in STATIC.joinpath(folder).iterdir()
}


def script(**modules: str) -> str:
    """Return the bundle of modules whose entry is `a`."""
    return bundle(
        {f"js/{name}.js": text.encode() for name, text in modules.items()}, "js/a.js"
    ).decode()


def test_each_module_stands_once_and_before_those_that_need_it() -> None:
    bundled = script(
        a='import "./b.js";\nimport { d } from "./d.js";\na();\n',
        b='import {\n  d,\n  e\n} from "./d.js";\nb();\n',
        d="export const d = 1;\nexport async function e() {}\n",
    )
    assert bundled == "const d = 1;\nasync function e() {}\n\nb();\n\na();\n"


def test_a_style_sheet_begins_with_what_it_imports_first() -> None:
    files = {
        "css/app.css": b'/* all */\n@import "./x.css";\n@import "./y.css";\n',
        "css/x.css": b"@layer a, b;\n",
        "css/y.css": b"p { margin: 0; }\n",
    }
    assert bundle(files, "css/app.css") == b"@layer a, b;\n\np { margin: 0; }\n\n/* all */\n"


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ({"a": 'import "./b.js";\nlet x = 1;\n', "b": "function x() {}\n"}, "both declare x"),
        ({"a": 'import "./b.js";\n', "b": 'import "./a.js";\n'}, "a.js imports itself"),
        ({"a": 'import "./b.js";\n'}, "js/a.js needs js/b.js, which is missing"),
        ({"a": 'import { x as y } from "./b.js";\n', "b": "export const x = 1;\n"}, "x as y"),
        ({"a": 'import * as b from "./b.js";\n', "b": ""}, r"import \* as b"),
        ({"a": 'import b from "./b.js";\n', "b": ""}, "import b"),
        ({"a": "export default 1;\n"}, "export default"),
        ({"a": "const x = 1;\nexport { x };\n"}, "export { x }"),
        ({"a": "const { x } = y;\n"}, "const { x }"),
        ({"a": "var x = 1;\n"}, "var x"),
    ],
)
def test_what_cannot_be_put_into_one_file_is_refused(modules: dict[str, str], words: str) -> None:
    with pytest.raises(BundleError, match=words):
        script(**modules)


@pytest.mark.parametrize("entry", ENTRIES.values())
def test_the_bundle_holds_every_file_of_its_folder_and_no_import(entry: str) -> None:
    bundled = bundle(SOURCES, entry).decode()
    folder, _, suffix = entry.partition("/app.")
    for path in STATIC.joinpath(folder).glob(f"*.{suffix}"):
        code = path.read_text().splitlines()[-1]
        assert code.startswith(("import ", "@import ")) or code in bundled.splitlines(), path
        first = path.read_text().partition("*/")[0]
        assert first.startswith("/* "), f"{path} does not say what it is for"
        assert first in bundled, f"{path} is not in the bundle"
    assert not re.search(r"^@?(?:import|export)\b", bundled, re.MULTILINE)

"""Rules that every template and static file keeps."""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import sys

from jinja2 import TemplateError

from riverui.domain.jobs import JobState
from riverui.web.assets import STATIC, TEMPLATES
from riverui.web.http.bundles import ENTRIES, bundle
from riverui.web.sections import SECTIONS
from riverui.web.view import render
from riverui.web.view.format import STATE_ICONS

FILES = sorted(TEMPLATES.rglob("*.html"))


def test_a_template_compiles_and_says_what_it_needs() -> None:
    wrong = []
    for path in FILES:
        name = path.relative_to(TEMPLATES).as_posix()
        try:
            render.environment(SECTIONS.template_globals).get_template(name)
        except TemplateError as error:
            wrong.append(f"{name}: {error!r}")
        if not path.read_text().startswith("{# "):
            wrong.append(f"{name} does not say what it needs")
    assert not wrong, "\n".join(wrong)


def test_the_image_compiles_the_templates() -> None:
    dockerfile = (TEMPLATES.parent / "Dockerfile").read_text()
    (program,) = re.findall(r'-P -c \\\n\s+"(.*)"', dockerfile)
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_template_holds_no_inline_script_style_or_unescaped_text() -> None:
    forbidden = {
        "a filter that switches escaping off": r"\|\s*safe\b|autoescape|Markup",
        "an inline style": r"\sstyle\s*=|<style",
        "an inline handler": r"\son[a-z]+\s*=|hx-on|javascript:",
        "an inline script": r"<script(?![^>]*\ssrc=)",
        "an unquoted attribute value": r"<[^>{]*\s[a-z-]+=\{\{",
        "an address of another origin": r"(?:src|href|action)=[\"'](?:https?:)?//",
        "hidden inheritance of htmx 2": r"hx-boost|hx-ext|hx-vals=.js",
    }
    wrong = [
        f"{path.relative_to(TEMPLATES)}: {what}"
        for path in FILES
        for text in [path.read_text()]
        for what, pattern in forbidden.items()
        if re.search(pattern, text)
    ]
    assert not wrong, "\n".join(wrong)


def test_text_has_three_sizes() -> None:
    wrong = [
        f"{path.name}: {size}"
        for path in sorted((STATIC / "css").glob("*.css"))
        for size in re.findall(r"font(?:-size)?: ([^;]+)", path.read_text())
        # Code is a little smaller than the text around it; 100% is what the browser is set to.
        if not re.search(r"var\(--(?:large|normal|small)\)|^(?:inherit|0|100%|\.\d+em)$", size)
    ]
    assert not wrong, "\n".join(wrong)


def test_script_and_style_fit_into_60_kb_on_the_wire() -> None:
    base = (TEMPLATES / "base.html").read_text()
    loaded = re.findall(r'static\("([^"]+\.(?:js|css))"\)', base)
    assert len(loaded) == 3
    sent = {path.relative_to(STATIC).as_posix(): path.read_bytes() for path in STATIC.rglob("*.*")}
    sent |= {name: bundle(sent, entry) for name, entry in ENTRIES.items()}
    assert sum(len(gzip.compress(sent[name], 9)) for name in loaded) <= 60_000


def test_every_icon_that_templates_name_is_in_the_sprite() -> None:
    sprite = set(re.findall(r'<symbol id="([^"]+)"', (STATIC / "icons.svg").read_text()))
    named: set[str] = set()
    for path in FILES:
        text = path.read_text()
        named |= set(re.findall(r'\bicon\("([a-z0-9-]+)"', text)) | set(
            re.findall(r'icon_name="([a-z-]+)"', text)
        )
        named |= {
            icon
            for block in re.findall(r"icons = (\{.*?\})", text, re.S)
            for icon in re.findall(r': "([a-z0-9-]+)"', block)
        }
    named |= {section.navigation.icon for section in SECTIONS if section.navigation}
    assert named
    assert named | set(STATE_ICONS.values()) <= sprite
    assert STATE_ICONS.keys() == set(JobState)


def test_vendored_files_are_what_their_list_says() -> None:
    listed = re.findall(
        r"\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|", (STATIC / "vendor/VERSIONS.md").read_text()
    )
    assert {name for name, _ in listed} == {"icons.svg"} | {
        f"vendor/{path.name}" for path in (STATIC / "vendor").glob("*.js")
    }
    for name, digest in listed:
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest, name


def test_our_script_uses_nothing_that_the_policy_forbids() -> None:
    text = "".join(path.read_text() for path in (STATIC / "js").iterdir())
    assert not re.search(
        r"\beval\(|new Function|setTimeout\(\s*[\"'`]|\.style\b|setAttribute\(.style", text
    )


PROJECT = TEMPLATES.parent
WRAPPED = [
    *FILES,
    *sorted(STATIC.glob("css/*.css")),
    *sorted(STATIC.glob("js/*.js")),
    *sorted((PROJECT / "riverui").rglob("*.sql")),
    PROJECT / "bench/fill.sql",
]


def test_two_files_fit_beside_each_other() -> None:
    long = [
        f"{path.relative_to(PROJECT)}:{number}"
        for path in WRAPPED
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 120
    ]
    assert not long, "\n".join(long)


def test_every_class_of_the_style_sheet_is_used() -> None:
    css = "".join(path.read_text() for path in (STATIC / "css").iterdir())
    css = re.sub(r"/\*.*?\*/|\{[^{}]*\}", " ", css, flags=re.DOTALL)
    defined = set(re.findall(r"\.([a-z][\w-]*)", css))
    sources = [*TEMPLATES.rglob("*.html"), *(STATIC / "js").iterdir()]
    sources += (TEMPLATES.parent / "riverui").rglob("*.py")
    text = "\n".join(path.read_text() for path in sources)
    whole = set(re.findall(r"[\w-]+", text))
    # Classes whose end is known only when a page is drawn: s-{{ state }}, env-%s, n-${level}.
    begun = set(re.findall(r"([a-z]+-)(?:\{|%|\$|\" ?[~+])", text))
    assert {"s-", "step-", "env-", "n-"} <= begun
    assert defined
    unused = {
        name
        for name in defined - whole
        if (parts := name.partition("-"))[0] + "-" not in begun or parts[2] not in whole
    }
    assert unused - {"htmx-request"} == set(), "htmx sets the one that is let pass"


def test_every_icon_of_the_sprite_is_used() -> None:
    sprite = set(re.findall(r'<symbol id="([^"]+)"', (STATIC / "icons.svg").read_text()))
    package = TEMPLATES.parent / "riverui"
    sources = [*FILES, *(package / "web").rglob("*.py"), *(package / "actions").rglob("*.py")]
    text = re.sub(r'class="[^"]*"', "", "".join(path.read_text() for path in sources))
    assert sprite - set(re.findall(r'"([a-z0-9-]+)"', text)) == set()

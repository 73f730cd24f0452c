"""Make the reference of the Python names from signatures and docstrings, read by griffe."""

from __future__ import annotations

import copy
import functools
import html
import re
from collections.abc import Iterator, Sequence

import griffe

FOLDER = "reference/python/"
"""The folder of these pages in the site."""
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "client": (
        "Client",
        (
            "engine.client", "engine.sync_client", "engine.config", "engine.queue_config",
            "engine.spans",
        ),
    ),
    "args": ("Args and inserting",
        ("engine.args", "engine.insert", "features.sequences.engine.opts", "storage.interface"),
    ),
    "workers": ("Workers and tasks", ("engine.work.w", "engine.work.tasks")),
    "context": ("Inside a job", ("engine.work.context", "engine.work.resumable")),
    "jobs": (
        "Jobs, queues, events",
        ("domain.jobs", "domain.queues", "engine.job_lists", "engine.events", "storage.where"),
    ),
    "schedules": (
        "Schedules and retries",
        ("domain.schedules", "domain.retries", "engine.lead.periodic", "features.durable_periodic"),
    ),
    "workflows": ("Workflows and waits", ("features.workflows",)),
    "limits": (
        "Limits of queues",
        (
            "domain.partitions", "features.concurrency", "features.fair_shares",
            "features.rate_limits",
        ),
    ),
    "retention": (
        "Retention, dead letters, encryption, other features",
        ("engine.retention", "features"),
    ),
    "hooks": ("Hooks, middleware, plugins", ("engine.hooks", "contrib")),
    "dashboard": ("Dashboard and database", ("", "web", "storage.connect", "storage.migrations")),
}  # fmt: skip
"""The pages of `import riverui`: their titles, and the modules whose names they contain. The
longest matching module counts.
"""
MODULES = {
    "testing": "riverui.testing",
    "testing-sync": "riverui.testing.sync",
    "errors": "riverui.errors",
    "django": "riverui.contrib.django",
    "django-access": "riverui.contrib.django.access",
    "django-testing": "riverui.contrib.django.testing",
    "otel": "riverui.contrib.otel",
    "prometheus": "riverui.contrib.prometheus",
    "sentry": "riverui.contrib.sentry",
}
"""The other public modules, by their pages."""
_EXTRAS = {"riverui": ("OpenTelemetryPlugin", "SentryPlugin")}
"""Public names that need an extra, and so are in no `__all__`."""

Entries = list[tuple[str, griffe.Object]]
"""Names as users write them after `riverui.` or their module, and their objects."""


def names() -> Iterator[str]:
    """Yield the pages in the order of the navigation."""
    yield f"{FOLDER}index.md"
    for name in (*GROUPS, *MODULES):
        yield f"{FOLDER}{name}.md"


def pages() -> dict[str, str]:
    """Return each page of the reference by its address, in Markdown."""
    made = {f"{FOLDER}{name}.md": _page(name) for name in contents()}
    return {f"{FOLDER}index.md": _index(), **made}


@functools.cache
def contents() -> dict[str, Entries]:
    """Return the contents of each page."""
    package = griffe.load("riverui", resolve_aliases=False)
    assert isinstance(package, griffe.Module)
    held: dict[str, Entries] = {name: [] for name in (*GROUPS, *MODULES)}
    for name in sorted(set(_public(package)) - {"__version__"}, key=str.lower):
        found = _target(package[name])
        held[_group(found)].append((name, found))
    for page, path in MODULES.items():
        module = package[path.partition(".")[2]]
        for name in sorted(_public(module), key=str.lower):
            held[page].append((name, _target(module[name])))
    return held


def _public(module: griffe.Module) -> Sequence[str]:
    """Return the public names of a module: what it exports, or else what it defines."""
    if module.exports is not None:
        return [*map(str, module.exports), *_EXTRAS.get(module.path, ())]
    return [
        name
        for name, member in module.members.items()
        if not name.startswith("_") and not member.is_alias and not member.is_module
    ]


def _target(found: griffe.Object | griffe.Alias) -> griffe.Object:
    """Return the object of a name; for a module of the same name, the object in it."""
    found = found.final_target if isinstance(found, griffe.Alias) else found
    if found.is_module and found.name in found.members:
        return _target(found.members[found.name])
    # A second name of something that is not public under its first.
    if isinstance(found, griffe.Attribute) and isinstance(found.parent, griffe.Module):
        other = found.parent.members.get(str(found.value))
        if isinstance(other, griffe.Class) and other.name not in _public(other.package):
            return other
    return found


def _group(found: griffe.Object) -> str:
    """Return the page of a public name, by the module that defines it."""
    path = found.module.path.removeprefix("riverui").removeprefix(".")
    fitting = [
        (len(module), page)
        for page, (_, modules) in GROUPS.items()
        for module in modules
        if path == module or (module and path.startswith(module))
    ]
    if not fitting:
        raise LookupError(f"{found.path}: name its module in GROUPS of docs/_site/reference.py")
    return max(fitting)[1]


@functools.cache
def _links() -> dict[str, str]:
    """Return the place of each public name; that of `riverui` wins over those of modules."""
    places: dict[str, str] = {}
    for page, entries in contents().items():
        for name, _ in entries:
            places.setdefault(name, f"{page}.md#{name}")
    return places


def _index() -> str:
    lines = ["# Python names", "", "Everything that a program may import, by what it is for.", ""]
    for page, entries in contents().items():
        title = GROUPS[page][0] if page in GROUPS else f"`{MODULES[page]}`"
        lines += [f"## [{title}]({page}.md) {{: #{page} }}", ""]
        lines += [
            f"- [`{name}`]({page}.md#{name}): {_linked(_summary(found), name)}"
            for name, found in entries
        ]
        lines.append("")
    return "\n".join(lines)


def _page(page: str) -> str:
    if page in GROUPS:
        listed = ", ".join(f"`{name}`" for name, _ in contents()[page])
        head = f"# {GROUPS[page][0]}\n\nImported from `riverui`: {listed}.\n"
    else:
        entries = contents()[page]
        module = next(
            (found.module for _, found in entries if found.module.path == MODULES[page]), None
        )
        head = f"# {MODULES[page]}\n\n{_docstring(module)}\n"
    return head + "".join(
        part for name, found in contents()[page] for part in _entry(name, found, page)
    )


def _entry(name: str, found: griffe.Object, page: str) -> Iterator[str]:
    """Yield the section of one name: what it looks like, what it is, and its members."""
    yield f"\n## {name} {{: #{name} }}\n\n"
    yield _code(_declaration(name, found))
    yield f"{_docstring(found, but=name)}\n\n"
    types = _types(found, name)
    if isinstance(found, griffe.Class):
        members = _members(found)
        fields = [each for each in members if isinstance(each, griffe.Attribute)]
        functions = [each for each in members if isinstance(each, griffe.Function)]
        for field in fields:
            yield _field(field, name)
        for function in functions:
            yield f"### {name}.{function.name} {{: #{name}.{function.name} }}\n\n"
            yield _code(_signature(function))
            yield f"{_docstring(function, but=name)}\n\n{_types(function, name)}"
    yield f"{types}*Defined in* `{found.module.path}`.\n\n"


def _members(found: griffe.Class) -> list[griffe.Object]:
    """Return a class's public members: its own, then those that it has from bases of riverui."""
    everything = {**found.members, **found.all_members}
    members = [_method(each) for name, each in everything.items() if not name.startswith("_")]
    return [
        member
        for member in members
        if (member.docstring or _is_declared(member))
        and member.module.path != "riverui.engine.deprecated"
    ]


def _method(found: griffe.Object | griffe.Alias) -> griffe.Object:
    """Return what a name in a class stands for; for an asyncio method that `sync_method` makes
    synchronous that method, without its `async`.
    """
    found = _target(found)
    value = found.value if isinstance(found, griffe.Attribute) else None
    if not isinstance(value, griffe.ExprCall) or str(value.function) != "sync_method":
        return found
    (made_of,) = value.arguments
    assert isinstance(made_of, griffe.Expr)
    method = copy.copy(_target(found.package[made_of.canonical_path.partition(".")[2]]))
    method.labels = method.labels - {"async"}
    return method


def _is_declared(member: griffe.Object) -> bool:
    """Return whether a class body declares it: attributes assigned in methods are left out."""
    return isinstance(member, griffe.Attribute) and (
        "class-attribute" in member.labels or (member.value is None and bool(member.annotation))
    )


def _declaration(name: str, found: griffe.Object) -> str:
    if isinstance(found, griffe.Function):
        return _signature(found, name)
    if isinstance(found, griffe.Class):
        bases = [str(base).replace("typing.", "") for base in found.bases]
        shown = [base for base in bases if base.partition("[")[0] in (*_links(), *_SHOWN_BASES)]
        made = found.all_members.get("__init__")
        # Those of dataclasses are the fields that are listed below.
        if isinstance(made, griffe.Function) and "dataclass" not in found.labels:
            return _signature(made, name, "class ")
        return f"class {name}({', '.join(shown)})" if shown else f"class {name}"
    assert isinstance(found, griffe.Attribute)
    value = str(found.value)
    return name if re.search(r"\b_", value) else f"{name} = {value}"


_SHOWN_BASES = ("StrEnum", "Enum", "Exception", "Protocol", "TypedDict", "NamedTuple")
"""Bases that describe a class, besides the public ones."""
WIDE = 80
"""Maximum columns of a signature on one line: what a page shows without scrolling."""


def _signature(function: griffe.Function, name: str = "", start: str = "") -> str:
    """Return a function's signature, without `self`, a line a parameter where it is long."""
    parts, last = [], ""
    for each in function.parameters:
        if each.name in ("self", "cls"):
            continue
        kind = each.kind.value if each.kind else ""
        if kind == "keyword-only" and last not in (kind, "variadic positional"):
            parts.append("*")
        if last == "positional-only" and kind != last:
            parts.append("/")
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        words = f"{stars}{each.name}" + (f": {each.annotation}" if each.annotation else "")
        if each.default is not None and not stars:
            words += f" = {each.default}" if each.annotation else f"={each.default}"
        parts.append(words)
        last = kind
    if last == "positional-only":
        parts.append("/")
    start = start or ("async def " if "async" in function.labels else "def ")
    end = f" -> {function.returns}" if function.returns and start != "class " else ""
    head = f"{start}{name or function.name}("
    line = f"{head}{', '.join(parts)}){end}"
    if len(line) <= WIDE:
        return line
    return head + "".join(f"\n    {part}," for part in parts) + f"\n){end}"


def _field(field: griffe.Attribute, owner: str) -> str:
    """Return a field as an entry of a definition list: name, type, default; its docstring."""
    declared = f"<code>{_annotation(field.annotation, owner)}</code>" if field.annotation else ""
    given = field.value is not None and "class-attribute" in field.labels
    default = f" = `{_default(field)}`" if given else ""
    text = "\n    ".join(_docstring(field, but=owner).splitlines()) or "&nbsp;"
    return f"`{field.name}` {declared}{default} {{: #{owner}.{field.name} }}\n:   {text}\n\n"


def _default(field: griffe.Attribute) -> str:
    """Return a field's default as a caller would write it."""
    value = " ".join(str(field.value).split())
    made = re.fullmatch(r"field\(.*?default_factory=(?:lambda: )?(.*)\)", value)
    if made is None:
        return value
    return {"dict": "{}", "list": "[]"}.get(
        made[1], f"{made[1]}()" if made[1].isidentifier() else made[1]
    )


def _annotation(annotation: object, owner: str) -> str:
    """Return a type with its public names as links."""
    words = html.escape(" ".join(str(annotation).split()), quote=False)
    words = words.replace("[", "&#91;").replace("]", "&#93;").replace("*", "&#42;")
    return _NAME.sub(lambda name: _link(name[0], name[0], owner), words)


def _types(found: griffe.Object, owner: str) -> str:
    """Return a line of links to the public types that a signature names."""
    if not isinstance(found, griffe.Function):
        return ""
    words = " ".join(str(each.annotation) for each in (*found.parameters, found))
    named = [name for name in dict.fromkeys(_NAME.findall(words)) if name in _links()]
    links = [_link(name, f"`{name}`", owner) for name in named if name != owner]
    return f"Types: {', '.join(links)}.\n\n" if links else ""


_NAME = re.compile(r"[A-Za-z_]\w*")
_MENTION = re.compile(r"`([A-Za-z_]\w*)`|(?<![\w`.])([A-Z][a-z]+[A-Z]\w+)(?![\w`])")
"""How docstrings mention a public name: anything in backticks, and CamelCase words."""


def _link(name: str, shown: str, owner: str) -> str:
    place = _links().get(name)
    return shown if place is None or name == owner else f"[{shown}]({place})"


def _summary(found: griffe.Object) -> str:
    """Return the first sentence of a docstring."""
    text = found.docstring.value if found.docstring else ""
    return re.split(r"(?<=\.)\s|(?<=:)\n\n", " ".join(text.partition("\n\n")[0].split()))[0]


def _docstring(found: griffe.Object | None, *, but: str = "") -> str:
    """Return a docstring in Markdown, its public names but one as links."""
    if found is None or not found.docstring:
        return ""
    blocks = found.docstring.value.split("\n\n")
    return "\n\n".join(
        block if block.startswith("    ") else _linked(block, but) for block in blocks
    )


def _linked(text: str, but: str) -> str:
    text = _MENTION.sub(lambda found: _link(found[1] or found[2], found[0], but), text)
    return text.replace("<", "&lt;").replace("*", r"\*") if "`" not in text else text


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n\n"

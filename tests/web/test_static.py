"""Static files: hashed, cached, compressed, and nothing but static files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from riverui import create_app
from riverui.web.assets import STATIC
from riverui.web.http.bundles import ENTRIES
from riverui.web.http.static import MEDIA_TYPES, StaticFiles, content_hash
from tests.cases import cases
from tests.web.stand_ins import DeadDriver, browser

YEAR = "public, max-age=31536000, immutable"


def app() -> Starlette:
    return create_app(DeadDriver(), basic_auth=("ada", "secret"))


async def test_every_file_is_served_with_its_type_and_kept_for_a_year() -> None:
    files = [path for path in STATIC.rglob("*") if path.suffix in MEDIA_TYPES]
    assert files
    async with browser(app()) as client:
        for file in files:
            name = file.relative_to(STATIC).as_posix()
            answer = await client.get(f"/static/{content_hash(file.read_bytes())}/{name}")
            assert answer.status_code == 200, name
            assert answer.content == file.read_bytes()
            assert answer.headers["content-type"] == MEDIA_TYPES[file.suffix]
            assert answer.headers["cache-control"] == YEAR
            assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ENTRIES)
async def test_what_is_put_together_is_served_and_kept_like_a_file(name: str) -> None:
    async with browser(app()) as client:
        found = await client.get(f"/static/x/{name}")
        assert found.headers["content-type"] == MEDIA_TYPES[Path(name).suffix]
        kept = await client.get(f"/static/{content_hash(found.content)}/{name}")
    assert (kept.status_code, kept.headers["cache-control"]) == (200, YEAR)
    assert kept.content == found.content


async def test_text_goes_out_compressed_to_those_who_can_read_it() -> None:
    async with browser(app()) as client:
        known = await client.get("/static/x/app.css")
        address = f"/static/{content_hash(known.content)}/app.css"
        plain = await client.get(address, headers={"Accept-Encoding": "identity"})
        zipped = await client.get(address, headers={"Accept-Encoding": "br, gzip"})
        assert "content-encoding" not in plain.headers
        assert zipped.headers["content-encoding"] == "gzip"
        assert (
            int(zipped.headers["content-length"])
            == len(gzip.compress(plain.content, 9))
            < len(plain.content)
        )
        assert plain.headers["vary"] == zipped.headers["vary"] == "Accept-Encoding"


async def test_an_old_hash_gets_the_new_file_uncached_and_a_known_one_nothing_again() -> None:
    async with browser(app()) as client:
        old = await client.get("/static/000000000000/app.css")
        assert (old.status_code, old.headers["cache-control"]) == (200, "no-cache")
        again = await client.get(
            "/static/000000000000/app.css", headers={"If-None-Match": old.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")


async def test_nothing_else_can_be_reached() -> None:
    async with browser(app()) as client:
        with cases() as case:
            for path in (
                "nothing.css",
                "../pyproject.toml",
                "..%2fpyproject.toml",
                "%2e%2e/%2e%2e/etc/passwd",
                "/etc/passwd",
                "vendor",
                "vendor/",
                "vendor/VERSIONS.md",
                "app.css/",
                "",
            ):
                with case(path):
                    answer = await client.get(f"/static/x/{path}")
                    assert answer.status_code in (401, 404)


async def test_what_the_folder_holds_decides(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("secret notes")
    (tmp_path / "app.css").write_text("a {}")
    static = StaticFiles(tmp_path)
    app = Starlette(routes=[Route("/{hash}/{path:path}", static.show)])
    async with browser(app) as client:
        assert (await client.get("/x/app.css")).text == "a {}"
        assert (await client.get("/x/notes.md")).status_code == 404


def test_the_script_of_the_graph_is_small() -> None:
    assert (STATIC / "js/workflow-graph.js").stat().st_size <= 3 * 1024

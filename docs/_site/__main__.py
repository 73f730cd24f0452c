"""`python -m docs._site` builds the site into build/docs; `--serve` shows it on this machine."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import click

from docs._site.site import BuildError, build
from docs._site.stage import ROOT

OUTPUT = ROOT / "build/docs"


@click.command()
@click.option("--serve", is_flag=True, help="Show it on this machine until Ctrl-C.")
@click.option("--port", default=8000, show_default=True, help="Port to show it on.")
def main(serve: bool, port: int) -> None:
    """Build the documentation's site into build/docs."""
    try:
        made = build(ROOT / "build/site")
    except BuildError as error:
        sys.exit(str(error))
    shutil.rmtree(OUTPUT, ignore_errors=True)
    shutil.copytree(made, OUTPUT)
    click.echo(f"docs: {OUTPUT}/index.html")
    if serve:
        with ThreadingHTTPServer(
            ("127.0.0.1", port), partial(SimpleHTTPRequestHandler, directory=str(OUTPUT))
        ) as server:
            click.echo(f"http://127.0.0.1:{port}")
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                click.echo("")


main()

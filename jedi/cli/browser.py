"""`jedi open`: the web pages of the service."""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import Annotated

import typer
from jedi_client.cli.common import service


def open_pages(
    path: Annotated[str, typer.Argument(help="The page, such as /tasks/17.")] = "/",
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the link, and open no browser.")
    ] = False,
) -> None:
    """Log a browser in by a link that is valid for 60 s and once, and open a page.

    Without a browser, copy the link into one on this machine, or through an SSH tunnel.

    Example: `jedi open /tasks/17`
    """
    with service() as jedi:
        link = jedi.session_link(target=f"/{path.lstrip('/')}")
    typer.echo(link.url)
    if not only_print and _has_screen():
        webbrowser.open(link.url)


def _has_screen() -> bool:
    """True if a browser has a window; else it might take the terminal."""
    return sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )

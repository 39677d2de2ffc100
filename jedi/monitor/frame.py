"""The facts that the layout of every page needs: its title, the visitor, the menu, the actions."""

from __future__ import annotations

from typing import Any

from jedi.monitor.actions import Action, offered
from jedi.monitor.all_pages import PAGES
from jedi.monitor.sessions import Visitor


def frame(title: str, path: str, visitor: Visitor | None = None, role: str = "") -> dict[str, Any]:
    """The facts of every page. Without a visitor there is neither a menu nor an action."""

    def may_do(kind: str, owner: str | None = None, status: str | None = None) -> list[Action]:
        return offered(kind, visitor.caller, role, owner, status) if visitor else []

    return {
        "title": title,
        "path": path,
        "visitor": visitor,
        "role": role,
        "page": None,
        "menu": PAGES if visitor else {},
        "given": {},
        "may_do": may_do,
    }

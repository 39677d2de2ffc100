"""YAML as people should write it: plain values, each key once, no aliases."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


def load(text: str) -> Any:
    """The document in a text; yaml.YAMLError names what is wrong and where."""
    return yaml.load(text, _Loader)


def parts(text: str) -> list[str] | None:
    """The texts of the documents in a text, or of the items of its only one; None if that is no
    list. yaml.YAMLError: it is not well formed."""
    nodes = [node for node in yaml.compose_all(text, _Loader) if node is not None]
    if len(nodes) == 1:
        if not isinstance(nodes[0], yaml.SequenceNode):
            return None
        nodes = nodes[0].value
    return [_text(text, node) for node in nodes]


def _text(text: str, node: yaml.Node) -> str:
    """What a node was made of, its first line as far from the margin as it was."""
    start, end = node.start_mark, node.end_mark
    return " " * start.column + text[start.index : end.index]


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):  # a few lines of them unfold to gigabytes
            parser: Any = self  # its methods have no types
            mark = parser.get_event().start_mark
            raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for place, _ in node.value:
            key = place.value
            if place.tag != "tag:yaml.org,2002:str":
                problem = f"key {key!r} is not text: write it in quotes"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)
            if key in seen:
                problem = f"key {key!r} is repeated"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

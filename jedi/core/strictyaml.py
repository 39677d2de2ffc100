"""YAML as people should write it: plain values, each key once, no aliases."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


def load(text: str) -> Any:
    """The document in a text; yaml.YAMLError names what is wrong and where."""
    return yaml.load(text, _Loader)


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

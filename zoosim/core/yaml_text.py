"""Read YAML with bounds: on its length, on how deep it nests, and on what its aliases stand for; and write it."""

import re
from typing import Any

import yaml

from zoosim.core.parameters import shown

MOST_BYTES = 16_000_000
"""The longest text that is read, in characters."""

MOST_NODES = 400_000
"""Most keys and values that a text may hold: each takes about 800 bytes of memory while it is parsed."""

MOST_REPEATED = 100_000
"""Most keys and values that a text with aliases may stand for, each alias counted as what it repeats."""

DEEPEST = 50
"""Deepest nesting of lists and mappings."""

_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_PATTERNS = {
    _INT: re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)$"),
    _FLOAT: re.compile(
        r"[-+]?(\d[\d_]*\.[\d_]*([eE][-+]?\d+)?|\.\d[\d_]*([eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+|\.(inf|Inf|INF))$"
        r"|\.(nan|NaN|NAN)$"
    ),
}


def parse_yaml(text: str) -> Any:
    """Return what a YAML text says; raises `yaml.YAMLError`, `ValueError` or `RecursionError`."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"has {len(text):,} characters, expected at most {MOST_BYTES:,}")
    return yaml.load(text, Loader=_BoundedLoader)


class _BoundedLoader(yaml.SafeLoader):
    """A safe loader that refuses what grows without bound, and a key given twice, of which YAML would keep the last.

    It reads 10:20 as text, a range of seeds, where YAML 1.1 would count minutes: 620; 2026-03-01 as text, too; and 1e-3
    as a number. Types are those that values have by themselves: a tag, such as !!bool, is refused.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, _PATTERNS.get(tag, pattern)) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._sizes: dict[int, int] = {}
        self._has_aliases = False

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node, having counted what it stands for."""
        is_alias = self.check_event(yaml.AliasEvent)
        event = self.peek_event()  # type: ignore[no-untyped-call]
        mark = event.start_mark
        if getattr(event, "tag", None) is not None:
            tag = shown(event.tag.replace("tag:yaml.org,2002:", "!!"))
            raise yaml.composer.ComposerError(None, None, f"has the tag {tag}; give the value without it", mark)
        self._depth += 1
        if self._depth > DEEPEST:
            raise yaml.composer.ComposerError(None, None, f"nests deeper than {DEEPEST} levels", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        self._has_aliases |= is_alias
        if is_alias and id(node) not in self._sizes:
            raise yaml.composer.ComposerError(None, None, "an alias stands inside of what it repeats", mark)
        # Nodes stay in the tree, so no other one gets this id while the text is read. An alias is the very node that it
        # repeats, which was counted when it was first met; whoever holds it adds its size again.
        self._sizes.setdefault(id(node), self._size(node))
        most = MOST_REPEATED if self._has_aliases else MOST_NODES
        if self._sizes[id(node)] > most or len(self._sizes) > MOST_NODES:
            message = f"holds more than {most:,} keys and values, aliases counted as what they repeat"
            raise yaml.composer.ComposerError(None, None, message, mark)
        return node

    def _size(self, node: Any) -> int:
        """Return how many nodes there are in one, itself included; those in it have been counted."""
        if isinstance(node, yaml.ScalarNode):
            return 1
        children = node.value
        if isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
        return 1 + sum(self._sizes[id(child)] for child in children)


def write_yaml(values: Any, width: int = 80) -> str:
    """Return values as YAML that `parse_yaml` reads as the same: text such as 12e5 or 0x1f is put in quotes.

    Args:
        values: Mappings, lists, text, numbers, booleans and None.
        width: Characters of a line beyond which long text is folded.
    """
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width))


class _Dumper(yaml.SafeDumper):
    """A safe writer with the reader's idea of a number: YAML's own takes 12e5 for text, and writes it bare."""

    yaml_implicit_resolvers = _BoundedLoader.yaml_implicit_resolvers


def _mapping(loader: _BoundedLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, str | int | float) and key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {shown(key)} is given twice", key_node.start_mark
            )
        seen.add(key if isinstance(key, str | int | float) else id(key_node))
    return loader.construct_mapping(node, deep=True)


_BoundedLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)

"""Structured logs: JSON lines to a file or pipe, short coloured lines to a terminal."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

from jedi.core import clock


def _stamp(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {"at": clock.now().isoformat(timespec="milliseconds"), **event}


_JSON = json.JSONEncoder(default=str)


class _Lines:
    """The stream of log lines. If the disk is full, lines are lost, and the process goes on."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> None:
        with suppress(OSError):
            self._file.write(line)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


def setup(component: str, level: str = "info") -> structlog.stdlib.BoundLogger:
    """Configure this process's log and return its logger, bound to the component."""
    terminal = sys.stderr.isatty()
    renderer: Any = (
        structlog.dev.ConsoleRenderer(timestamp_key="at")
        if terminal
        else structlog.processors.JSONRenderer(lambda event, **_words: _JSON.encode(event))
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _stamp,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Lines(sys.stderr))),
        cache_logger_on_first_use=False,
    )
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(component=component)
    return logger.bind()  # else each line would make a logger

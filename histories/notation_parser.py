"""Parses the notation of `notation.py`."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from .attempts import Outcome, payload_digest
from .notation import HistoryBuilder
from .ops import RESTART, STOP, Json, OpType

_RESULTS: Final = ("ok", "fail", "info")


class NotationError(ValueError):
    """A line that is not in the notation; the message holds it."""


def parse(text: str) -> HistoryBuilder:
    """Parse a history in notation.

    Raises:
        NotationError: A line cannot be read.
    """
    builder = HistoryBuilder()
    parser = _Parser(builder, text)
    for line in text.splitlines():
        words = re.split(r"(?:^|\s)#", line)[0].split()
        if words:
            try:
                parser.line(float(words[0]), words[1:])
            except (ValueError, KeyError, IndexError, TypeError, msgspec.ValidationError) as error:
                raise NotationError(f"{line.strip()!r}: {error}") from error
    return builder


class _Parser:
    def __init__(self, builder: HistoryBuilder, text: str):
        self._builder = builder
        self._letters = _stored(text, "letters")
        self._failed = _stored(text, "failed")

    def line(self, t: float, words: list[str]) -> None:
        verb, rest = words[0], words[1:]
        plain, named = _split(rest)
        if verb == "dispatch":
            self._dispatch(t, plain, named)
        elif verb == "fault":
            self._fault(t, plain, named)
        elif verb == "starved":
            figures = {name: float(told) for name, told in named.items()}
            self._builder.starved(t, plain[0], figures.pop("until"), **figures)
        elif verb == "drained":
            self._builder.drained(t, self._letters, self._failed)
        elif verb == "restart":
            self._builder.ask(t, RESTART, {"code": named["code"]})
        elif verb == "stop":
            self._builder.ask(t, STOP, {})
        elif verb == "master":
            self._builder.died(t, "", int(plain[1]) if len(plain) > 1 else 9, role="master")
        elif verb not in ("letters", "failed"):
            self._worker(t, verb, rest[0], rest[1:])

    def _dispatch(self, t: float, plain: list[str], named: dict[str, str]) -> None:
        result: OpType = (
            msgspec.convert(plain[1], OpType) if plain[1:2] and (plain[1] in _RESULTS) else "ok"
        )
        self._builder.dispatch(
            t,
            plain[0],
            result,
            status=named.get("status", ""),
            offset=int(named["offset"]) if "offset" in named else None,
            p=named.get("p", "0"),
            tries=int(named.get("tries", 3)),
            backoff_s=[float(wait) for wait in named.get("backoff", "1").split(",")],
            timeout_s=float(named.get("timeout", 5)),
            delay_s=float(named.get("delay", 0)),
            done=float(named["done"]) if "done" in named else None,
            resend="resend" in plain,
        )

    def _fault(self, t: float, plain: list[str], named: dict[str, str]) -> None:
        self._builder.fault(
            t,
            plain[0],
            plain[1],
            healed=float(named["healed"]) if "healed" in named else None,
            recovered=float(named["recovered"]) if "recovered" in named else None,
            seen="unseen" not in plain,
        )

    def _worker(self, t: float, worker: str, verb: str, rest: list[str]) -> None:
        plain, named = _split(rest)
        if verb == "born":
            pid = int(named["pid"]) if "pid" in named else None
            self._builder.born(worker, named.get("code", "v1"), pid)
        elif verb == "got":
            self._builder.got(t, worker, [_numbered(word) for word in plain])
        elif verb == "start":
            self._builder.start(t, worker, *_numbered(plain[0]))
        elif verb == "end":
            outcome = msgspec.convert(plain[1] if plain[1:] else "completed", Outcome)
            self._builder.end(t, worker, plain[0], outcome)
        elif verb == "ack":
            self._builder.ack(t, worker, plain[0])
        elif verb == "gave-up":
            refused = int(named["refused"]) if "refused" in named else None
            self._builder.gave_up(t, worker, plain[0], (plain[1:] or ["exception"])[0], refused)
        elif verb == "died":
            status = 0 if "exit" in named else int((plain or ["9"])[0])
            self._builder.died(t, worker, status, popping="popping" in plain)
        else:
            raise ValueError(f"unknown verb {verb!r}")


def _split(words: list[str]) -> tuple[list[str], dict[str, str]]:
    named = dict(word.split("=", 1) for word in words if "=" in word)
    return [word for word in words if "=" not in word], named


def _numbered(word: str) -> tuple[str, int]:
    job, number = word.rsplit("#", 1)
    return job, int(number)


def _stored(text: str, verb: str) -> Json:
    found = re.search(rf"^\s*[0-9.]+\s+{verb}\b(.*)$", text, re.MULTILINE)
    if found is None:
        return None
    entries: list[Json] = []
    for word in found[1].split():
        job, _, digest = word.partition("=")
        entries.append([job, digest or payload_digest(job), "exception"])
    return entries

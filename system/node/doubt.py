"""Answers that are none, because an earlier try of the same request may have been applied.

A node asks again, under the same request id, when a leader is lost. What the second leader then
refuses, the first may have done: that has to be told as an unknown outcome.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ..broker.commands import Ack
from ..http.routes import Answer, Write

NOTHING_WAS_APPLIED: Final = (429, 507)
"""Statuses that say so; true of one try, and not of an earlier one."""


class _Said(msgspec.Struct):
    success: bool = True


_ACKED: Final = msgspec.json.Decoder(list[_Said])


def is_refused_repeat(routed: object, answer: Answer) -> bool:
    """Whether an ack was refused that an earlier try may have carried out.

    The broker knows a repeated ack again by its lease, until another lease of that partition is
    released; all other commands it knows by their request id.
    """
    if not isinstance(routed, Write) or not isinstance(routed.command, Ack):
        return False
    return answer.status == 200 and not all(item.success for item in _ACKED.decode(answer.body))

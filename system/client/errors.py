"""Why a call did not get its answer."""

from __future__ import annotations

CODE_REFUSED = "connection_refused"
CODE_LOST = "connection_lost"
CODE_TIMEOUT = "timeout"
CODE_MALFORMED = "malformed_answer"


class BrokerError(Exception):
    """A call that the broker refused, or whose answer never came.

    Attributes:
        status: HTTP status of the last answer, None when the last try got none.
        code: The broker's error code, or one of this module's.
        text: What the broker or the operating system said.
        definite: Whether it is certain that no try of the call was applied.
    """

    def __init__(self, status: int | None, code: str, text: str, *, definite: bool) -> None:
        """Hold what is known."""
        super().__init__(f"{code}: {text}" if status is None else f"{status} {code}: {text}")
        self.status = status
        self.code = code
        self.text = text
        self.definite = definite

"""The operations that show and change who belongs to the cluster."""

from __future__ import annotations

from typing import Final

from .answer import ErrorBody
from .member_bodies import AddForm, MembersBody, VotersForm
from .surface import Operation

_PATH: Final = "/api/v1/cluster/members"
_CHANGED: Final = {200: MembersBody, 409: ErrorBody, 504: ErrorBody}

MEMBER_OPERATIONS: Final = (
    Operation("GET", _PATH, "Who belongs to the cluster.", {200: MembersBody}),
    Operation("POST", _PATH, "Take a node in as a learner.", _CHANGED, body=AddForm),
    Operation(
        "PUT",
        _PATH,
        "Make these members the voters, one change after the other.",
        _CHANGED,
        body=VotersForm,
    ),
    Operation("POST", f"{_PATH}/{{node}}/promote", "Make a learner a voter.", _CHANGED),
    Operation(
        "POST",
        f"{_PATH}/{{node}}/replace",
        "Take a node whose data folder is new in place of the one that it was.",
        _CHANGED,
    ),
    Operation("DELETE", f"{_PATH}/{{node}}", "Take a node out.", _CHANGED),
)

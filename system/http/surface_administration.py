"""The operations of operators: queues, groups, dead letters, messages, traces."""

from __future__ import annotations

from typing import Final

from . import (
    bodies,
    inspection_bodies,
    parse_administration,
    parse_positions,
    render_positions,
    surface_answers,
    surface_forms,
)
from .answer import ErrorBody
from .surface import Operation, number, switch, text
from .surface_messages import GROUP, QUEUE

_NOT_FOUND: Final = {404: ErrorBody}
_FROM_TO: Final = (
    text("from", "RFC 3339; from here on."),
    text("to", "RFC 3339; up to here."),
)
_PAGE: Final = (number("limit", "Rows at most."), number("offset", "Rows to leave out."))
_LABELS: Final = (text("namespace", "Only these queues."), text("task", "Only these queues."))

QUEUE_OPERATIONS: Final = (
    Operation(
        "POST",
        "/api/v1/configure",
        "Make a queue, or change its options.",
        {200: bodies.ConfigureBody},
        body=surface_forms.ConfigureForm,
    ),
    Operation(
        "GET",
        "/api/v1/resources/queues",
        "All queues.",
        {200: inspection_bodies.QueuesBody},
        query=_LABELS,
    ),
    Operation(
        "GET",
        "/api/v1/resources/queues/{queue}",
        "One queue with its partitions.",
        {200: inspection_bodies.QueueBody, **_NOT_FOUND},
    ),
    Operation(
        "DELETE",
        "/api/v1/resources/queues/{queue}",
        "Delete a queue and all that it holds.",
        {200: bodies.DeletedQueueBody},
    ),
    Operation(
        "GET",
        "/api/v1/resources/queues/{queue}/depth",
        "What a queue holds for a group, in messages.",
        {200: bodies.DepthBody, **_NOT_FOUND},
        query=(text("group", "The group; none for the queue's own."),),
    ),
    Operation(
        "GET",
        "/api/v1/resources/namespaces",
        "Labels of queues.",
        {200: surface_answers.NamespacesAnswer},
    ),
    Operation(
        "GET",
        "/api/v1/resources/tasks",
        "Labels of queues.",
        {200: surface_answers.TasksAnswer},
    ),
    Operation(
        "GET",
        "/api/v1/status/queues",
        "All queues.",
        {200: inspection_bodies.QueuesBody},
        query=_LABELS,
    ),
    Operation(
        "GET",
        "/api/v1/status/queues/{queue}",
        "One queue with its partitions.",
        {200: inspection_bodies.QueueBody, **_NOT_FOUND},
    ),
    Operation(
        "POST",
        "/api/v1/partitions/changed",
        "Partitions that were written to since a moment.",
        {200: inspection_bodies.ChangedBody},
        body=parse_administration._ChangedBody,
    ),
    Operation(
        "POST",
        "/api/v1/stats/refresh",
        "Nothing: counts are never stale.",
        {200: surface_answers.SuccessAnswer},
        reach="node",
    ),
)

LETTER_OPERATIONS: Final = (
    Operation(
        "GET",
        "/api/v1/dlq",
        "Dead letters, newest first.",
        {200: bodies.DlqBody},
        query=(QUEUE, GROUP, text("partition", "The partition."), *_FROM_TO, *_PAGE),
    ),
    Operation(
        "DELETE",
        "/api/v1/dlq",
        "Drop dead letters of a queue.",
        {200: inspection_bodies.PurgedBody},
        query=(text("queue", "The queue.", required=True), GROUP),
    ),
    Operation(
        "POST",
        "/api/v1/dlq/{letter}/replay",
        "Move a dead letter to the tail of its partition, or of another.",
        {200: inspection_bodies.ReplayedBody, 404: surface_answers.GoneAnswer},
        body=parse_administration._ReplayBody,
        body_optional=True,
        grows=True,
    ),
    Operation(
        "GET",
        "/api/v1/messages",
        "Messages of all queues.",
        {200: inspection_bodies.MessagesBody},
        query=(
            QUEUE,
            text("partition", "The partition."),
            text("status", "Only messages of this status."),
            *_FROM_TO,
            *_PAGE,
        ),
    ),
    Operation(
        "GET",
        "/api/v1/messages/{partition}/{transaction}",
        "One message and what the groups did with it.",
        {200: inspection_bodies.MessageBody, **_NOT_FOUND},
    ),
    Operation(
        "DELETE",
        "/api/v1/messages/{partition}/{transaction}",
        "Drop the dead letters at an address.",
        {200: bodies.DeletedLettersBody, **_NOT_FOUND},
    ),
    Operation(
        "POST",
        "/api/v1/messages/{partition}/{transaction}/retry",
        "Replay the newest dead letter at an address.",
        {200: inspection_bodies.ReplayedBody, 404: surface_answers.GoneAnswer},
        grows=True,
    ),
    Operation(
        "POST",
        "/api/v1/traces",
        "Note something about a message.",
        {201: surface_answers.TraceAddedAnswer},
        body=parse_administration._TraceBody,
        grows=True,
    ),
    Operation(
        "GET",
        "/api/v1/traces/names",
        "Names that traces have.",
        {200: surface_answers.TraceNamesAnswer},
    ),
    Operation(
        "GET",
        "/api/v1/traces/by-name/{name}",
        "Traces of a name.",
        {200: surface_answers.TracesAnswer},
    ),
    Operation(
        "GET",
        "/api/v1/traces/{partition}/{transaction}",
        "Traces of a message.",
        {200: surface_answers.TracesAnswer},
    ),
)

GROUP_OPERATIONS: Final = (
    Operation(
        "GET",
        "/api/v1/consumer-groups",
        "All groups, one row for each of their queues.",
        {200: list[inspection_bodies.GroupBody]},
    ),
    Operation(
        "POST",
        "/api/v1/consumer-groups/positions",
        "Where a group reads, partition by partition.",
        {200: render_positions.PositionsBody},
        body=parse_positions._PositionsBody,
    ),
    Operation(
        "GET",
        "/api/v1/consumer-groups/lagging",
        "Groups that are behind.",
        {200: list[inspection_bodies.LaggingBody]},
        query=(number("minLagSeconds", "Only those at least this far behind; 60."),),
    ),
    Operation(
        "GET",
        "/api/v1/consumer-groups/{group}",
        "One group, by queue.",
        {200: dict[str, inspection_bodies.GroupBody], **_NOT_FOUND},
    ),
    Operation(
        "DELETE",
        "/api/v1/consumer-groups/{group}",
        "Forget a group.",
        {200: inspection_bodies.GroupDeletedBody},
        query=(switch("deleteMetadata", "Whether to forget where it began; true."),),
    ),
    Operation(
        "DELETE",
        "/api/v1/consumer-groups/{group}/queues/{queue}",
        "Forget a group of one queue.",
        {200: inspection_bodies.GroupDeletedBody},
        query=(switch("deleteMetadata", "Whether to forget where it began; true."),),
    ),
    Operation(
        "POST",
        "/api/v1/consumer-groups/{group}/subscription",
        "Change where a group begins in partitions that it has not touched.",
        {200: inspection_bodies.ResubscribedBody},
        body=parse_administration._SubscriptionBody,
    ),
    Operation(
        "POST",
        "/api/v1/consumer-groups/{group}/queues/{queue}/seek",
        "Move a group's cursors in a queue, and void its leases.",
        {200: inspection_bodies.GroupSoughtBody, **_NOT_FOUND},
        body=surface_forms.SeekForm,
    ),
    Operation(
        "POST",
        "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
        "Move a group's cursor in a partition; to the end when nothing is said.",
        {200: inspection_bodies.GroupSoughtBody, **_NOT_FOUND},
        body=surface_forms.SeekForm,
        body_optional=True,
    ),
)

ADMINISTRATION_OPERATIONS: Final = (*QUEUE_OPERATIONS, *LETTER_OPERATIONS, *GROUP_OPERATIONS)

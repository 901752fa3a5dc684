"""A broker of a few lines for the supervisor's tests: it delivers, renews, and remembers all."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

RenewalMood = Literal["renewing", "lost", "failing"]


@dataclass(frozen=True)
class Seen:
    """One request."""

    t_ns: int
    method: str
    path: str
    body: Any


@dataclass
class Message:
    """One stored message."""

    txn: str
    partition: str
    payload: dict[str, Any]
    deliveries: int = 0

    @property
    def job(self) -> str:
        return str(self.payload["_job"]["id"])


@dataclass
class ScriptedBroker:
    """Leases never expire by themselves; `mood` says what becomes of renewals.

    A request whose answer is kept is carried out and never answered; one that is swallowed is not
    even carried out. While pops are refused, each gets a 503; while pops or reads hang, none is
    answered.
    """

    ready: deque[Message] = field(default_factory=deque)
    leases: dict[str, list[Message]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    mood: RenewalMood = "renewing"
    keeps_answer: Callable[[str, Any], bool] = lambda word, body: False
    swallows: Callable[[str, Any], bool] = lambda word, body: False
    refuses_pops: bool = False
    pops_hang: bool = False
    reads_hang: bool = False
    closing: bool = False

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self._numbers = 0
        self._pushed: set[str] = set()
        broker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                raw = self.rfile.read(length)
                status, answer = broker.answer(self.command, self.path, raw, self._is_gone)
                data = b"" if status == 204 else json.dumps(answer).encode()
                self.send_response(status)
                if status != 204:
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _is_gone(self) -> bool:
                try:
                    seen: bytes = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return False
                except OSError:
                    return True
                return not seen

            def log_request(self, code: object = "-", size: object = "-") -> None:
                """What was asked is remembered, not printed."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that was killed in the middle of a request is no news here."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = int(self.server.server_address[1])
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def push(self, job: str, job_id: str, partition: str = "p-0000", **data: object) -> None:
        payload = {"_job": {"job": job, "id": job_id, "partition": partition, "data": data}}
        with self.changed:
            self.ready.append(Message(job_id, partition, payload))
            self.changed.notify_all()

    def requests(self, word: str) -> list[Seen]:
        with self.changed:
            return [seen for seen in self.seen if word in seen.path]

    def answer(
        self, method: str, target: str, raw: bytes, is_gone: Callable[[], bool]
    ) -> tuple[int, object]:
        url = urlsplit(target)
        body = json.loads(raw) if raw else None
        with self.changed:
            self.seen.append(Seen(time.monotonic_ns(), method, url.path, body))
        hangs = self.reads_hang if "/depth" in url.path else self.pops_hang
        if hangs and ("/depth" in url.path or "/pop/" in url.path):
            with self.changed:
                self.changed.wait_for(lambda: self.closing or is_gone(), 60)
            return 503, {"error": "gone", "code": "no_leader"}
        if "/pop/" in url.path and self.refuses_pops:
            return 503, {"error": "no connection to a leader", "code": "no_leader"}
        if "/partition/" in url.path:
            # The repeat of a pop that a dead worker had sent; here none of them had claimed.
            return 204, None
        if "/pop/" in url.path:
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            return self._pop(query, is_gone)
        handlers: list[tuple[str, Callable[[Any, str], tuple[int, object]]]] = [
            ("/extend", self._extend),
            ("/transaction", self._transaction),
            ("/ack", self._ack),
            ("/timers", self._timers),
        ]
        for word, handler in handlers:
            if word in url.path:
                with self.changed:
                    if body is not None and self.swallows(word, body):
                        self.changed.wait_for(lambda: self.closing or is_gone(), 20)
                        return 503, {"error": "gone", "code": "no_leader"}
                    answer = handler(body, url.path)
                    self.changed.notify_all()
                    if body is not None and self.keeps_answer(word, body):
                        self.changed.wait_for(lambda: self.closing or is_gone(), 20)
                return answer
        return 404, {"error": "Not Found", "code": "no_such_route"}

    def _pop(self, query: dict[str, str], is_gone: Callable[[], bool]) -> tuple[int, object]:
        wait_s = int(query.get("timeout", "0")) / 1000 if query.get("wait") == "true" else 0
        with self.changed:
            self.changed.wait_for(lambda: bool(self.ready) or self.closing, wait_s)
            if not self.ready or self.closing or is_gone():
                self.changed.notify_all()
                return 204, None
            self._numbers += 1
            lease = f"lease-{self._numbers}"
            count = min(int(query["batch"]), len(self.ready))
            taken = [self.ready.popleft() for _ in range(count)]
            self.leases[lease] = taken
            messages = []
            for offset, message in enumerate(taken):
                message.deliveries += 1
                messages.append(self._delivered(message, lease, offset))
        return 200, {"success": True, "leaseId": lease, "messages": messages}

    def _delivered(self, message: Message, lease: str, offset: int) -> dict[str, object]:
        return {
            "id": f"id-{message.txn}",
            "transactionId": message.txn,
            "data": message.payload,
            "partitionId": message.partition.removeprefix("p-"),
            "partition": message.partition,
            "leaseId": lease,
            "deliveryAttempt": message.deliveries,
            "offset": offset,
        }

    def _extend(self, body: Any, path: str) -> tuple[int, object]:
        lease = path.split("/")[-2]
        if self.mood == "failing":
            return 503, {"error": "no connection to a leader", "code": "no_leader"}
        held = self.mood == "renewing" and lease in self.leases
        return 200, {"leaseId": lease, "success": held, "renewed": int(held)}

    def _take(self, lease: str | None, txn: str) -> bool:
        for held, messages in list(self.leases.items()):
            if lease not in (None, held):
                continue
            for message in messages:
                if message.txn == txn:
                    messages.remove(message)
                    if not messages:
                        del self.leases[held]
                    return True
        return False

    def _ack(self, body: Any, path: str) -> tuple[int, object]:
        items = body.get("acknowledgments", [body])
        taken = [self._take(item.get("leaseId"), item["transactionId"]) for item in items]
        for item in items:
            if item.get("status") == "dlq":
                self._release(item["leaseId"])
        return 200, [
            {
                "index": index,
                "transactionId": item["transactionId"],
                "success": taken[index],
                "error": None,
                "leaseReleased": True,
                "dlq": item.get("status") == "dlq",
                "noop": False,
            }
            for index, item in enumerate(items)
        ]

    def _release(self, lease: str) -> None:
        """A dead letter frees what was leased behind it (in tests that have one partition)."""
        for message in reversed(self.leases.pop(lease, [])):
            message.deliveries -= 1
            self.ready.appendleft(message)

    def _transaction(self, body: Any, path: str) -> tuple[int, object]:
        if any(lease not in self.leases for lease in body.get("requiredLeases", [])):
            return 200, {"success": False, "reason": "rejected_ack", "error": "rolled back: lease"}
        pushed = {i["transactionId"] for o in body["operations"] for i in o.get("items", ())}
        if pushed & self._pushed:
            return 200, {"success": False, "reason": "duplicate", "error": "rolled back: again"}
        self._pushed |= pushed
        for operation in body["operations"]:
            if operation["type"] == "ack":
                self._take(operation.get("leaseId"), operation["transactionId"])
            else:
                for item in operation["items"]:
                    message = Message(item["transactionId"], item["partition"], item["payload"])
                    self.ready.append(message)
        return 200, {"success": True, "results": []}

    def _timers(self, body: Any, path: str) -> tuple[int, object]:
        return 200, {"results": [{"ok": True, "status": "scheduled"} for _ in body["operations"]]}

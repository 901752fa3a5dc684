"""Chains and a batch under a supervisor whose workers are killed, on a real node."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from atleastonce.system.jobs import ConnectionSettings, SyncDispatcher, prepare_chain, step
from atleastonce.system.jobs.encryption import VARIABLE, new_key
from atleastonce.system.jobs.loading import load_application
from atleastonce.system.jobs.sizing import queue_size

from ..jobs.one_node import OneNode
from .supervised import Supervised, wait_for

pytestmark = pytest.mark.cluster

CHAINS, LINKS, MEMBERS, KILLS = 6, 5, 40, 4
PATIENCE_S = 60.0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OneNode]:
    made = OneNode(tmp_path)
    yield made
    made.close()


@pytest.fixture
def flows(tmp_path: Path, node: OneNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervised]:
    monkeypatch.setenv(VARIABLE, new_key())
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    made = Supervised(tmp_path, node.endpoint.port)
    made.config["app"] = "flows_app:make_app"
    made.config["workers"] = 2
    made.config["worker"].update(
        ack_async=True, pop_ahead=True, partitions=8, retry_after_s=4.0, timeout_s=2.5
    )
    yield made
    made.end()


def test_killed_workers_neither_lose_nor_double_a_link_a_count_or_a_callback(
    flows: Supervised, node: OneNode
) -> None:
    where = ConnectionSettings(endpoints=((node.endpoint.host, node.endpoint.port),), partitions=8)
    app = load_application("flows_app:make_app")
    app.connection = where
    dispatcher = SyncDispatcher(node.client)
    for chain in range(CHAINS):
        links = [step("link", {"chain": chain, "place": place}) for place in range(LINKS)]
        steps = [*links, step("breaks"), step("link", {"chain": chain, "place": 99})]
        dispatcher.send(prepare_chain(app, steps, catch="called", chain_id=f"c{chain}"))
    members = [step("member", number) for number in range(MEMBERS)]
    batch = dispatcher.batch(app, members, then="called", catch="called", finally_="called")
    flows.start()
    killed = 0
    for _ in range(KILLS):
        before = ended(flows)
        wait_for(
            partial(has_gone_on, flows, before, node),
            f"more jobs\n{flows.log()}",
            PATIENCE_S,
        )
        running = wait_for(lambda: flows.running() or is_drained(node), "a run", PATIENCE_S)
        if isinstance(running, dict):
            os.kill(next(iter(running.values())), signal.SIGKILL)
            killed += 1
    wait_for(lambda: is_drained(node), f"the end\n{flows.log()}", PATIENCE_S)
    assert flows.stop() == 0
    assert killed >= 1

    runs = [(chain, place) for _, _, chain, place in flows.notes("linked")]
    due = [(str(chain), str(place)) for chain in range(CHAINS) for place in range(LINKS)]
    assert sorted(set(runs)) == due
    for chain in range(CHAINS):
        firsts = list(dict.fromkeys(place for each, place in runs if each == str(chain)))
        assert firsts == [str(place) for place in range(LINKS)]
    # A kill costs at most the job that ran: nothing else is run again.
    assert len(runs) - len(set(runs)) <= killed
    assert len(flows.notes("member")) - MEMBERS <= killed
    assert {line[2] for line in flows.notes("member")} == {str(n) for n in range(MEMBERS)}
    called = [tuple(line[2:]) for line in flows.notes("called")]
    assert sorted(set(called)) == [
        *[("catch", f"c{chain}") for chain in range(CHAINS)],
        ("finally", "batch"),
        ("then", "batch"),
    ]
    assert len(called) - len(set(called)) <= killed
    state = batch.state()
    assert (state.pending, state.failed, state.called) == (0, 0, ("then", "finally"))


def is_drained(node: OneNode) -> bool:
    return queue_size(node.client, "jobs", "jobs").total == 0


def ended(flows: Supervised) -> int:
    return len(flows.notes("linked")) + len(flows.notes("member"))


def has_gone_on(flows: Supervised, before: int, node: OneNode) -> bool:
    # On a quick machine there may be fewer left than that.
    return ended(flows) > before + 5 or is_drained(node)

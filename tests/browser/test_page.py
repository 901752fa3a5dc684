"""The page at `/` in headless Chromium: what it shows, and what it lets nobody do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest

from ..system.node.node_cluster import Client, Cluster, NodeProcess, wait_until
from .webdriver import Browser

TABLE: Final = """
const heading = [...document.querySelectorAll('h2')].find(h => h.textContent.startsWith('%s'));
const table = heading.nextElementSibling;
if (table.tagName !== 'TABLE') return [];
return [...table.rows].map(row => [...row.cells].map(cell => cell.textContent));
"""
OWNED: Final = "document.title='owned'"
HOSTILE: Final = (
    f"<img src=x onerror={OWNED}>",
    f"</td></table><script>{OWNED}</script>",
    f"\"><svg onload={OWNED}>'",
    "<style>*{display:none}</style>",
    '<meta http-equiv="refresh" content="0;url=http://127.0.0.1:1/">',
    "&lt;b&gt; stays &amp;amp;",
    "<!-- ",
    "\u202egnp.exe \u0000\u0007",
    "<a href=javascript:void(0)>ключ 鍵 🔑</a>",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"), 3)
    try:
        made.start()
        yield made
    finally:
        made.end()


def look(browser: Browser, node: NodeProcess) -> None:
    browser.open(f"http://127.0.0.1:{node.port}/")


def table(browser: Browser, heading: str) -> list[dict[str, str]]:
    """The rows under a heading, by column."""
    found = browser.run(TABLE % heading)
    return [dict(zip(found[0], row, strict=True)) for row in found[1:]]


def row(browser: Browser, heading: str, **cells: str) -> dict[str, str]:
    """The one row with these cells."""
    rows = table(browser, heading)
    fitting = [each for each in rows if cells.items() <= each.items()]
    assert len(fitting) == 1, (cells, rows)
    return fitting[0]


def dead_letter(client: Client, queue: str, partition: str, error: str) -> None:
    client.push(queue, "bad", partition=partition)
    _, popped = client.pop(quote(queue, safe=""), batch=1)
    message = popped["messages"][0]
    ack: dict[str, Any] = {key: message[key] for key in ("transactionId", "partitionId", "leaseId")}
    body = {"acknowledgments": [{**ack, "status": "dlq", "error": error}]}
    assert client.call("POST", "/api/v1/ack/batch", body)[1][0]["dlq"] is True


def test_it_shows_every_node_with_its_place(browser: Browser, cluster: Cluster) -> None:
    leader = cluster.leader()
    client = leader.client()
    client.push("plain", "a", "b", "c")

    def all_are_level() -> bool:
        look(browser, leader)
        rows = table(browser, "Nodes")
        applied = {each["Applied"] for each in rows}
        return len(applied) == 1 and {each["Lag"] for each in rows} == {"0"}

    wait_until("the page shows three level nodes", all_are_level, 15.0)
    health = client.health()
    client.hang_up()
    roles = {each["Node"]: each["Role"] for each in table(browser, "Nodes")}
    assert len(roles) == 3
    assert roles[f"{leader.name}, this one"] == "leader"
    assert sorted(roles.values()) == ["follower", "follower", "leader"]
    terms = {each["Term"] for each in table(browser, "Nodes")}
    assert terms == {str(health["raft"]["term"])}
    assert browser.run("return document.title") == f"{leader.name} - atleastonce"


def test_it_shows_queues_lag_leases_and_dead_letters(browser: Browser, cluster: Cluster) -> None:
    node = cluster.leader()
    client = node.client()
    dead_letter(client, "orders", "p", "could not be read")
    client.push("orders", "x", "y", "z", partition="p")
    client.push("orders", "u", partition="other")
    assert client.pop("orders", batch=1, consumerGroup="g", subscriptionMode="all")[0] == 200
    client.hang_up()
    look(browser, node)
    own = row(browser, "Queues", Queue="orders")
    assert (own["Partitions"], own["Messages"], own["Dead"]) == ("2", "5", "1")
    groups = {each["Group"]: each for each in table(browser, "Queues")}
    assert groups["(the queue's own)"]["Lag"] == "4"
    assert groups["g"]["Lag"] == "5"
    assert groups["g"]["Leases"] == "1"
    letter = row(browser, "Dead letters", Queue="orders")
    assert letter == {
        "Queue": "orders", "Partition": "p", "Transaction": "bad", "Error": "could not be read",
    }  # fmt: skip


def test_hostile_names_are_text_and_nothing_else(browser: Browser, cluster: Cluster) -> None:
    node = cluster.leader()
    client = node.client()
    for number, name in enumerate(HOSTILE):
        assert client.push(name, f"m{number}")[0] == 201
        path = f"/api/v1/pop/queue/{quote(name, safe='')}?consumerGroup={quote(name, safe='')}"
        client.call("GET", path)
    queue = f"{HOSTILE[0]} with a dead letter"
    dead_letter(client, queue, HOSTILE[1], HOSTILE[2])
    client.hang_up()
    browser.log("browser")
    browser.requested()
    look(browser, node)
    shown = {each["Queue"] for each in table(browser, "Queues")}
    invisible = "\u202egnp.exe \u0000\u0007"
    assert set(HOSTILE) - {invisible} <= shown
    assert r"\u{202e}gnp.exe \u{0000}\u{0007}" in shown
    letter = row(browser, "Dead letters", Queue=queue)
    assert (letter["Partition"], letter["Error"]) == (HOSTILE[1], HOSTILE[2])
    tags = set(browser.run("return [...document.querySelectorAll('*')].map(e => e.localName)"))
    assert tags <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "thead", "tbody",
        "tr", "th", "td", "p",
    }  # fmt: skip
    assert browser.run("return document.querySelectorAll('style').length") == 1
    assert browser.run("return document.title") == f"{node.name} - atleastonce"
    handlers = "return [...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())"
    assert set(browser.run(handlers)) <= {"lang", "charset", "name", "content", "class"}


def test_it_loads_nothing_else_and_complains_of_nothing(browser: Browser, cluster: Cluster) -> None:
    node = cluster.leader()
    browser.open("about:blank")
    browser.log("browser")
    browser.requested()
    look(browser, node)
    page = f"http://127.0.0.1:{node.port}/"
    assert set(browser.requested()) <= {page, f"{page}favicon.ico"}
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    # Its own style is let in by its policy, and nothing else was tried.
    complaints = [each["message"] for each in browser.log("browser")]
    assert [each for each in complaints if "favicon.ico" not in each] == []
    assert browser.run(
        "return getComputedStyle(document.querySelector('table')).borderCollapse"
    ) == ("collapse")


def test_its_policy_stops_what_escaping_would_have_let_through(
    browser: Browser, cluster: Cluster
) -> None:
    look(browser, cluster.leader())
    browser.run(
        "const script = document.createElement('script');"
        "script.textContent = \"document.title='owned'\";"
        "document.body.append(script);"
        "const image = new Image(); image.src = '/health'; document.body.append(image);"
    )
    assert browser.run("return document.title") != "owned"
    assert browser.run("return document.images[0].naturalWidth") == 0
    assert any("Content Security Policy" in each["message"] for each in browser.log("browser"))


def test_it_refreshes_itself(browser: Browser, cluster: Cluster) -> None:
    node = cluster.leader()
    look(browser, node)
    client = node.client()
    client.push("later", "x")
    client.hang_up()

    def shows_it() -> bool:
        return any(each.get("Queue") == "later" for each in table(browser, "Queues"))

    wait_until("the page shows the new queue by itself", shows_it, 15.0)


def test_long_names_do_not_widen_it(browser: Browser, cluster: Cluster) -> None:
    node = cluster.leader()
    client = node.client()
    client.push("w" * 400, "x")
    client.hang_up()
    browser.resize(700, 800)
    look(browser, node)
    root = "document.documentElement"
    assert browser.run(f"return {root}.scrollWidth <= {root}.clientWidth")


def test_a_node_that_is_gone_is_shown_as_not_heard(browser: Browser, cluster: Cluster) -> None:
    leader = cluster.leader()
    gone = cluster.followers()[0]
    gone.kill()

    def shows_it() -> bool:
        look(browser, leader)
        return row(browser, "Nodes", Node=gone.name)["Role"] == "not heard"

    wait_until("the page shows that a node is not heard", shows_it, 10.0)

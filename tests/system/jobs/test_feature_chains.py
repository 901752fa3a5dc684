"""Chains and callbacks: in order, caught once, neither lost nor doubled."""

from __future__ import annotations

import pytest

from atleastonce.system.jobs import JobContext, prepare_chain, prepare_dispatch, retry_failed, step
from atleastonce.system.jobs.payload import Envelope, decode_job, encode_payload

from .one_node import Site, wait_for

pytestmark = pytest.mark.cluster


def add_links(site: Site) -> None:
    @site.app.job("link")
    def link(context: JobContext, payload: str) -> None:
        site.log("link", payload)

    @site.app.job("breaks", tries=2)
    def breaks(context: JobContext, payload: object) -> None:
        site.log("break")
        raise ValueError("broken link")

    @site.app.job("sorry")
    def sorry(context: JobContext, payload: object) -> None:
        site.log("caught", payload)


def test_jobs_of_a_chain_run_in_order_each_once(site: Site) -> None:
    add_links(site)
    steps = [step("link", name) for name in "abcd"]
    site.dispatcher.chain(site.app, steps, catch="sorry")
    site.run_until_drained(workers=2, prefetch=4, ack_async=True, pop_ahead=True)
    assert site.records("link") == ["a", "b", "c", "d"]
    assert site.records("caught") == []


def test_chain_that_breaks_is_caught_once_and_its_later_links_never_run(site: Site) -> None:
    add_links(site)
    steps = [step("link", "a"), step("breaks"), step("link", "never")]
    first = site.dispatcher.chain(site.app, steps, catch="sorry")
    site.run_until_drained()
    assert site.names("link", "break", "caught") == ["link", "break", "break", "caught"]
    chain_id = first.job_id.removesuffix(".1")
    assert site.records("caught") == [
        {
            "chain": chain_id,
            "job": "breaks",
            "job_id": f"{chain_id}.2",
            "error": "ValueError: broken link",
        }
    ]
    assert [row.job for row in site.store.list()] == ["breaks"]


def test_link_waits_for_its_delay(site: Site) -> None:
    add_links(site)
    steps = [step("link", "a"), step("link", "b", delay_s=0.3)]
    site.dispatcher.chain(site.app, steps)
    site.run_until_drained()
    assert site.records("link") == ["a", "b"]


def test_function_that_was_dispatched_by_reference_is_caught_by_another(site: Site) -> None:
    @site.app.function
    def works(context: JobContext, payload: object) -> None:
        site.log("worked", payload)

    @site.app.job(works.__module__ + ":fails", tries=1)
    def fails(context: JobContext, payload: object) -> None:
        raise ValueError("no")

    @site.app.function
    def catches(context: JobContext, payload: dict[str, str]) -> None:
        site.log("caught", payload["error"])

    name = step(works).job
    assert name == f"{works.__module__}:{works.__qualname__}"
    site.dispatcher.dispatch(site.app, name, 7, catch=catches)
    site.dispatcher.dispatch(site.app, works.__module__ + ":fails", 7, catch=catches)
    site.run_until_drained()
    assert site.records("worked") == [7]
    assert site.records("caught") == ["ValueError: no"]


def test_chain_goes_on_when_its_broken_job_is_retried_and_succeeds(site: Site) -> None:
    mended = site.folder / "mended"

    @site.app.job("mendable", tries=1)
    def mendable(context: JobContext, payload: object) -> None:
        if not mended.exists():
            raise ValueError("not mended")

    add_links(site)
    steps = [step("mendable"), step("link", "last")]
    site.dispatcher.chain(site.app, steps, catch="sorry")
    site.start()
    wait_for(lambda: site.left() == 0 and len(site.store.list()) == 1)
    mended.touch()
    retry_failed(site.store, site.node.client, site.store.list()[0].id)
    wait_for(lambda: site.records("link") == ["last"])
    site.stop()
    assert len(site.records("caught")) == 1


def test_chain_refuses_what_it_cannot_keep(site: Site) -> None:
    add_links(site)
    with pytest.raises(ValueError, match="no steps"):
        prepare_chain(site.app, [])
    with pytest.raises(ValueError, match="unknown job 'gone'"):
        prepare_chain(site.app, [step("link"), step("gone")])
    with pytest.raises(ValueError, match="unknown job 'gone'"):
        prepare_chain(site.app, [step("link")], catch="gone")
    with pytest.raises(ValueError, match="spans connections 'default' and 'other'"):
        prepare_chain(site.app, [step("link"), step("link", connection="other")])
    with pytest.raises(ValueError, match="'link' of a chain has a catch of its own"):
        prepare_chain(site.app, [step("link"), step("link", catch="sorry")])
    site.app.job("alone", unique_for_s=9)(lambda context, payload: None)
    with pytest.raises(ValueError, match="'alone' of a chain is unique; allowed: the first"):
        prepare_chain(site.app, [step("link"), step("alone")])


def test_unique_job_that_begins_a_chain_frees_its_lock_as_it_ends(site: Site) -> None:
    @site.app.job("alone", unique_for_s=60)
    def alone(context: JobContext, payload: object) -> None:
        site.log("alone")

    add_links(site)
    steps = [step("alone"), step("link", "after")]
    statuses = [site.dispatcher.chain(site.app, steps).status for _ in range(3)]
    assert statuses == ["queued", "duplicate", "duplicate"]
    site.run_until_drained()
    assert site.names("alone", "link") == ["alone", "link"]
    assert site.dispatcher.chain(site.app, steps).status == "queued"


def test_payload_without_features_has_the_bytes_it_always_had(site: Site) -> None:
    add_links(site)
    plain = prepare_dispatch(site.app, "link", "x", job_id="j", partition="p")
    data = encode_payload(Envelope(plain.body))
    assert data == b'{"_job":{"job":"link","id":"j","data":"x","partition":"p"}}'
    assert decode_job(data) == plain.body

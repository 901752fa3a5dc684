"""A worker that chooses its prefetch asks for about 250 ms of work."""

from __future__ import annotations

import pytest

from atleastonce.system.jobs.prefetching import AUTO_MAX, AutoPrefetch, jobs_for
from atleastonce.system.jobs.settings import SettingError, WorkerSettings

from .machine_broker import MachineBroker
from .one_node import Site
from .worker_process import Bench


@pytest.mark.parametrize(
    ("mean_s", "jobs"),
    [
        (None, 1),
        (0.0, 16),
        (0.001, 16),
        (0.0156, 16),
        (0.0157, 15),
        (0.025, 10),
        (0.05, 5),
        (0.1, 2),
        (0.126, 1),
        (0.25, 1),
        (3.0, 1),
        (float("inf"), 1),
    ],
)
def test_jobs_of_a_duration_make_a_quarter_of_a_second(mean_s: float | None, jobs: int) -> None:
    assert jobs_for(mean_s) == jobs


@pytest.mark.parametrize(
    ("durations_s", "jobs"),
    [
        ((), 1),
        ((0.01,), 16),
        ((0.5,), 1),
        ((0.01,) * 9 + (2.0,), 1),
        ((0.01,) * 9 + (2.0,) + (0.01,) * 10, 4),
        ((2.0,) + (0.001,) * 40, 16),
        ((0.001,) * 40 + (0.05,) * 20, 5),
    ],
)
def test_newer_durations_count_more(durations_s: tuple[float, ...], jobs: int) -> None:
    auto = AutoPrefetch()
    for seconds in durations_s:
        auto.note(seconds)
    assert auto.jobs == jobs


def settings(**changes: object) -> WorkerSettings:
    base: dict[str, object] = {"queue": "q", "endpoints": (("h", 1),), "state_dir": "s"}
    return WorkerSettings(**{**base, **changes})  # type: ignore[arg-type]


def test_most_that_a_pop_asks_for_is_known_beforehand() -> None:
    assert settings(prefetch="auto").prefetch_max == AUTO_MAX
    assert settings(prefetch=7).prefetch_max == 7


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"prefetch": 0}, "prefetch is 0; allowed: 1 to 1000, or auto"),
        ({"prefetch": 4, "ack_batch": 5}, "ack_batch is 5; allowed: 1 to prefetch, 4"),
        ({"prefetch": "auto", "ack_batch": 17}, "ack_batch is 17; allowed: 1 to prefetch, 16"),
        (
            {"prefetch": 4, "ack_batch": 2, "ack_async": True},
            "ack_batch is 2; with ack_async only 1 is allowed",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    changes: dict[str, object], line: str
) -> None:
    with pytest.raises(SettingError, match=line):
        settings(**changes)


def pops(broker: MachineBroker) -> list[str]:
    targets = [asked.target for asked in broker.asked if asked.kind == "pop"]
    return [target.partition("batch=")[2].partition("&")[0] for target in targets]


def test_worker_asks_for_one_job_then_for_as_many_as_are_quick(
    bench: Bench, broker: MachineBroker
) -> None:
    for n in range(18):
        broker.push_job(f"j{n}", partition=f"p-{n % 4:04}")
    pid = bench.start(prefetch="auto", pop_ahead=True)
    bench.wait_for_records("AttemptAcked", 18)
    assert bench.stop(pid) == 0
    asked = [int(number) for number in pops(broker)]
    assert asked[0] == 1
    # A machine that stands still makes a job look long, for the next pop at most.
    assert 1 < max(asked) <= AUTO_MAX


def test_worker_on_a_node_takes_many_quick_jobs_at_once(site: Site) -> None:
    @site.app.job("quick")
    def quick(context: object, payload: object) -> None:
        site.log("ran", payload)

    for n in range(40):
        site.dispatcher.dispatch(site.app, "quick", n)
    site.run_until_drained(prefetch="auto", pop_ahead=True)
    assert sorted(site.records("ran")) == list(range(40))
    leases = {record["lease"] for record in site.records("AttemptStarting")}
    assert len(leases) < 40

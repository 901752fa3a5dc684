"""The probes of `verify doctor`."""

from __future__ import annotations

from pathlib import Path

from atleastonce.verifier.doctor import examine


def test_every_probe_answers_and_bad_answers_have_a_remedy(tmp_path: Path) -> None:
    probes = examine(tmp_path)

    assert [probe.name for probe in probes] == [
        "python",
        "loopback ports",
        "temporary folder",
        "pidfd",
        "prctl",
        "fdatasync",
        "cores",
        "memory",
        "open files",
    ]
    for probe in probes:
        assert probe.found
        assert (probe.state == "ok") == (probe.remedy == "")


def test_folder_that_takes_no_files_fails_with_a_remedy(tmp_path: Path) -> None:
    probe = next(probe for probe in examine(tmp_path / "nowhere") if probe.name == "fdatasync")

    assert probe.state == "fail"
    assert "--store" in probe.remedy

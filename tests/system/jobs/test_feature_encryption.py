"""Encrypted jobs: what travels and lies is sealed, keys rotate, nothing shows them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from atleastonce.system.jobs import (
    Application,
    ConnectionSettings,
    EncryptionKeys,
    EncryptionKeysError,
    JobContext,
    prepare_chain,
    prepare_dispatch,
    step,
)
from atleastonce.system.jobs.encryption import UnsealError, new_key
from atleastonce.system.jobs.payload import Envelope, encode_payload

from .one_node import OneNode, Site

OLD, NEW, OTHER = (bytes([n]) * 32 for n in range(3))
SECRET = "the card's number"


@pytest.fixture
def sealed_site(tmp_path: Path, node: OneNode) -> Iterator[Site]:
    made = Site(node, tmp_path, EncryptionKeys([NEW, OLD]))
    yield made
    made.close()


def add_job(site: Site) -> None:
    @site.app.job("charge", encrypted=True, tries=1)
    def charge(context: JobContext, payload: dict[str, str]) -> None:
        site.log("charged", payload["card"])
        if payload["card"] == "bad":
            raise ValueError("refused")


def sealing(*keys: bytes) -> Application:
    app = Application(
        ConnectionSettings(endpoints=(("h", 1),)), encryption=EncryptionKeys(keys or [NEW])
    )
    app.job("charge", encrypted=True)(lambda context, payload: None)
    return app


@pytest.mark.cluster
def test_encrypted_job_runs_with_its_data_and_shows_it_nowhere(sealed_site: Site) -> None:
    site = sealed_site
    add_job(site)
    site.dispatcher.chain(
        site.app, [step("charge", {"card": SECRET}), step("charge", {"card": "bad"})]
    )
    site.run_until_drained()
    assert site.records("charged") == [SECRET, "bad"]
    (row,) = site.store.list()
    assert '"bad"' not in row.payload
    for path in site.node.folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


@pytest.mark.cluster
def test_key_that_was_rotated_still_unseals_and_a_missing_one_is_a_dead_letter(
    sealed_site: Site,
) -> None:
    site = sealed_site
    add_job(site)
    for key in (OLD, OTHER):
        site.app.encryption = EncryptionKeys([key])
        site.dispatcher.dispatch(site.app, "charge", {"card": key.hex()})
    site.app.encryption = EncryptionKeys([NEW, OLD])
    site.run_until_drained()
    assert site.records("charged") == [OLD.hex()]
    (gave_up,) = site.records("JobGaveUp")
    assert (gave_up["cause"], gave_up["ran"]) == ("not_a_job", False)
    assert "is sealed by key" in gave_up["error"]


def test_payload_holds_nothing_of_the_data() -> None:
    app = sealing()
    plain = prepare_dispatch(app, "charge", {"card": SECRET})
    assert plain.body.encrypted
    assert b"card" not in encode_payload(Envelope(plain.body))
    chained = prepare_chain(app, [step("charge", {"card": SECRET})] * 2, catch="charge")
    assert b"card" not in encode_payload(Envelope(chained.body))
    again = prepare_dispatch(app, "charge", {"card": SECRET})
    assert plain.digest != again.digest


def test_sealed_data_belongs_to_its_job_and_cannot_be_changed() -> None:
    app = sealing(NEW)
    body = prepare_dispatch(app, "charge", 5, job_id="a").body
    assert app.decode_data(body) == 5
    with pytest.raises(UnsealError, match="changed, or is another job's"):
        app.decode_data(msgspec.structs.replace(body, id="b"))
    text = bytes(body.data)
    parts = msgspec.json.decode(text)
    changed = bytearray(base64.b64decode(parts["text"]))
    changed[0] ^= 1
    parts["text"] = base64.b64encode(changed).decode()
    with pytest.raises(UnsealError, match="changed"):
        app.decode_data(msgspec.structs.replace(body, data=msgspec.Raw(msgspec.json.encode(parts))))
    with pytest.raises(UnsealError, match="not sealed"):
        app.decode_data(msgspec.structs.replace(body, data=msgspec.Raw(b"5")))
    app.encryption = None
    with pytest.raises(UnsealError, match="has no keys"):
        app.decode_data(body)
    with pytest.raises(ValueError, match="'charge' is encrypted, but the application has no keys"):
        prepare_dispatch(app, "charge", 5)


def test_keys_come_from_a_private_file_or_the_environment_and_are_never_shown(
    tmp_path: Path,
) -> None:
    path = tmp_path / "keys"
    first, second = new_key(), new_key()
    path.write_text(f"{first}\n{second}\n")
    path.chmod(0o600)
    keys = EncryptionKeys.from_file(path)
    sealed = keys.seal(b"x", "c")
    assert EncryptionKeys.from_environment("K", {"K": first}).unseal(sealed, "c") == b"x"
    with pytest.raises(UnsealError, match="not at hand"):
        EncryptionKeys.from_environment("K", {"K": second}).unseal(sealed, "c")
    assert repr(keys) == "EncryptionKeys(2)"
    path.chmod(0o640)
    with pytest.raises(EncryptionKeysError, match="have mode 640; allowed: 600 or 400"):
        EncryptionKeys.from_file(path)
    for text in ("", "§", "c2hvcnQ="):
        with pytest.raises(EncryptionKeysError, match="allowed: base64 of 32 bytes") as refused:
            EncryptionKeys.from_environment("K", {"K": text})
        assert not text or text not in str(refused.value)
    with pytest.raises(EncryptionKeysError, match="K is not set"):
        EncryptionKeys.from_environment("K", {})
    with pytest.raises(EncryptionKeysError, match="cannot read encryption keys"):
        EncryptionKeys.from_file(tmp_path / "none")


def test_keys_without_the_package_that_uses_them_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("atleastonce.system.jobs.encryption.find_spec", lambda name: None)
    with pytest.raises(EncryptionKeysError, match=r"install atleastonce\[encryption\]"):
        EncryptionKeys([NEW])

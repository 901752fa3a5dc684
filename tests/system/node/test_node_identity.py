"""A data folder keeps its id, and an emptied one never passes for the one that it was."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from atleastonce.system.node.config_error import ConfigError
from atleastonce.system.node.identity import IDENTITY_FILE, load_identity, save_identity


def test_a_new_folder_gets_an_id_and_keeps_it(tmp_path: Path) -> None:
    first = load_identity(tmp_path, "n1", is_empty=True, is_alone=False)
    assert not first.proven
    assert load_identity(tmp_path, "n1", is_empty=True, is_alone=False) == first
    assert load_identity(tmp_path, "n1", is_empty=False, is_alone=False) == first


def test_a_folder_with_data_but_without_an_id_is_taken_for_the_first(tmp_path: Path) -> None:
    assert load_identity(tmp_path, "n1", is_empty=False, is_alone=False).proven


def test_a_node_alone_has_nobody_to_ask(tmp_path: Path) -> None:
    first = load_identity(tmp_path, "n1", is_empty=True, is_alone=True)
    assert first.proven
    assert load_identity(tmp_path, "n1", is_empty=True, is_alone=True) == first


def test_a_folder_that_was_in_use_and_is_empty_now_is_another(tmp_path: Path) -> None:
    first = load_identity(tmp_path, "n1", is_empty=True, is_alone=False)
    save_identity(tmp_path, msgspec.structs.replace(first, proven=True))
    assert load_identity(tmp_path, "n1", is_empty=False, is_alone=False).incarnation == (
        first.incarnation
    )
    second = load_identity(tmp_path, "n1", is_empty=True, is_alone=False)
    assert second.incarnation != first.incarnation
    assert not second.proven


def test_the_folder_of_another_node_and_a_damaged_id_are_refused(tmp_path: Path) -> None:
    load_identity(tmp_path, "n1", is_empty=True, is_alone=False)
    with pytest.raises(ConfigError, match="is the folder of 'n1', not 'n2'"):
        load_identity(tmp_path, "n2", is_empty=True, is_alone=False)
    (tmp_path / IDENTITY_FILE).write_bytes(b"{")
    with pytest.raises(ConfigError, match="cannot read"):
        load_identity(tmp_path, "n1", is_empty=True, is_alone=False)

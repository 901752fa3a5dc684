"""A store whose file ends before its last page: cut, or sound all the same?

LMDB counts a page as used once a transaction has taken it. One that the same transaction gives back
need not be written, so a store may rightly end a few pages early. Reading a page behind the end of
the file kills the process, though. So a copy that is filled up with zeros is read instead, every
page of it: a page that is missing shows there as damage.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import lmdb


def read_whole(file: Path, whole_bytes: int, check: Callable[[bytes, bytes], object]) -> None:
    """Read every page of a copy of a short store. Cost: copying and reading all of it.

    Args:
        file: The store.
        whole_bytes: The size that its last page asks for.
        check: Called with the key and the content of each row; raises for a bad one.

    Raises:
        lmdb.Error: A page that the store needs is not there.
        OSError: There is no room for the copy.
    """
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".short-") as copy:
        shutil.copyfile(file, copy.name)
        os.truncate(copy.name, whole_bytes)
        environment = lmdb.open(
            copy.name,
            map_size=2 * whole_bytes,
            subdir=False,
            max_dbs=2,
            readonly=True,
            lock=False,
        )
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            # A compact copy visits the free pages' list and every page in use.
            environment.copyfd(nowhere, compact=True)
            rows = environment.open_db(b"rows", create=False)
            with environment.begin(db=rows) as transaction, transaction.cursor() as cursor:
                for key, content in cursor:
                    check(key, content)
        finally:
            os.close(nowhere)
            environment.close()

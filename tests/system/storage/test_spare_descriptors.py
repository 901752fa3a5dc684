"""The descriptors that a disk keeps for itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Uses up all descriptors but the disk's own, and goes on writing new files.
_CROWDED = """
import errno, os, resource, sys
from pathlib import Path
from atleastonce.system.storage.disk import RealDisk
disk = RealDisk(Path(sys.argv[1]))
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
try:
    while True:
        os.open(os.devnull, os.O_RDONLY)
except OSError as error:
    assert error.errno == errno.EMFILE
for number in range(50):
    disk.create(f'{number}.tmp')
    disk.append(f'{number}.tmp', [b'x'])
    disk.fsync(f'{number}.tmp')
    disk.rename(f'{number}.tmp', 'MANIFEST')
    disk.fsync_dir('')
print(disk.read('MANIFEST'))
disk.close()
"""


def test_a_disk_goes_on_when_others_have_used_up_all_descriptors(tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-c", _CROWDED, str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ),
        check=False,
    )
    assert (done.stdout, done.returncode) == ("b'x'\n", 0), done.stderr

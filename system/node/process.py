"""A node's process: configuration in, exit status out."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import trio

from ..storage.errors import DamagedCheckpointError
from ..storage.wal import DamagedLogError, DirectoryLockedError, DiskFailedError
from .boot import bind_sockets, run_node
from .config import load_config
from .config_error import ConfigError
from .end_in_time import ended_in_time
from .ending import EXIT_BROKEN, EXIT_DAMAGED, EXIT_DISK_FAILED, EXIT_OUT_OF_MEMORY
from .lack import is_lack_of_memory
from .logbook import Logbook
from .opening import open_storage
from .own_version import own_version
from .saying import NO_MEMORY, say
from .secrets import read_secrets
from .tls import Doors

EXIT_OK: Final = 0
EXIT_CONFIG: Final = 2


def _open_logbook(path: str | None, node: str) -> Logbook:
    if path is None:
        descriptor = sys.stderr.fileno()
    else:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"log_file: cannot open {path}: {error.strerror}") from None

    def write(line: bytes) -> None:
        try:
            os.write(descriptor, line)
        except OSError:
            # Nobody reads the log any more; serving clients matters more.
            return

    return Logbook(write, node)


def _end_on_thread_crash(logbook: Logbook) -> None:
    """A node whose log writer is dead must end, not hang."""

    def hook(args: threading.ExceptHookArgs) -> None:
        if is_lack_of_memory(args.exc_value or args.exc_type()):
            say(NO_MEMORY)
            os._exit(EXIT_OUT_OF_MEMORY)
        thread = args.thread.name if args.thread else "unknown"
        reason = f"{args.exc_type.__name__}: {args.exc_value}"
        logbook.error("broken", thread=thread, reason=reason)
        sys.__excepthook__(args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
        os._exit(EXIT_BROKEN)

    threading.excepthook = hook


def run_process(config_path: str) -> int:
    """Run a node until it is told to stop; returns the exit status."""
    with ExitStack() as stack:
        try:
            config = load_config(Path(config_path))
            secrets = read_secrets(config, os.environ)
            doors = Doors(config.client_tls, config.peer_tls, secrets.passphrase)
            logbook = _open_logbook(config.log_file, config.node)
            sockets = bind_sockets(config, stack)
            _end_on_thread_crash(logbook)
            opened = open_storage(config)
            recovered = opened.recovered
            logbook.info(
                "boot",
                checkpoint=opened.in_force.store.position.index,
                first_index=recovered.start_index,
                last_index=recovered.last_index,
                term=recovered.hard_state.term,
                torn_bytes=recovered.torn_bytes,
                disk=config.disk,
                bugs=list(config.bugs),
            )
            try:
                trio.run(
                    run_node,
                    config,
                    secrets,
                    sockets,
                    doors,
                    opened,
                    logbook,
                    own_version(),
                )
            finally:
                ended_in_time()
        except (ConfigError, DirectoryLockedError) as error:
            say(f"node: {error}")
            return EXIT_CONFIG
        except DamagedLogError as error:
            logbook.error("damaged-log", file=error.file, offset=error.offset, reason=error.reason)
            where = Path(config.data_dir) / error.file
            say(f"node: {where}: damaged at byte {error.offset}: {error.reason}")
            say(f"remedy: {error.remedy}")
            return EXIT_DAMAGED
        except DamagedCheckpointError as error:
            logbook.error("damaged-checkpoint", file=error.file, reason=error.reason)
            say(f"node: {error.file}: damaged: {error.reason}")
            say(f"remedy: {error.remedy}")
            return EXIT_DAMAGED
        except DiskFailedError as error:
            say(f"node: {error} (data in {config.data_dir})")
            return EXIT_DISK_FAILED
        except (MemoryError, trio.TrioInternalError) as error:
            if not is_lack_of_memory(error):
                raise
            say(NO_MEMORY)
            return EXIT_OUT_OF_MEMORY
        except BaseExceptionGroup as group:
            if is_lack_of_memory(group):
                say(NO_MEMORY)
                return EXIT_OUT_OF_MEMORY
            status = _config_trouble(group)
            if status is None:
                logbook.error("broken", reason=_innermost(group))
                raise
            return status
    return EXIT_OK


def _config_trouble(group: BaseExceptionGroup[BaseException]) -> int | None:
    """Say what is wrong when that is all that is wrong; None for anything else."""
    matching, rest = group.split(ConfigError)
    if matching is None or rest is not None:
        return None
    say(f"node: {_innermost(matching)}")
    return EXIT_CONFIG


def _innermost(group: BaseExceptionGroup[BaseException]) -> str:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first) or type(first).__name__

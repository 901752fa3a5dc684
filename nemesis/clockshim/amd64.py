"""The shim's functions for x86-64, as the System V ABI calls them.

The kernel is asked by system call; the vDSO is not, as finding it needs a loader of its own.
Times that are moved by less than nothing stay whole: nanoseconds are 0 to 999,999,999 again.
"""

from __future__ import annotations

from .assembly import Assembly, Code, Instruction


def assemble(address: int, offset_at: int, errno_slot: int) -> Code:
    """Assemble `clock_gettime`, `gettimeofday` and `time`.

    Args:
        address: Where the code will lie.
        offset_at: Where the signed 64-bit nanoseconds lie that are added to the time of day.
        errno_slot: Where the address of `__errno_location` lies.
    """
    code = Assembly(address)
    clock_gettime = code.function("clock_gettime", _clock_gettime(offset_at, errno_slot))
    code.function("gettimeofday", _gettimeofday(clock_gettime))
    code.function("time", _time(clock_gettime))
    return code.finish()


def _clock_gettime(offset_at: int, errno_slot: int) -> dict[str, tuple[Instruction, ...]]:
    """`int clock_gettime(clockid_t rdi, struct timespec *rsi)`."""
    return {
        "ask": (
            "b8 e4 00 00 00",  # mov eax, 228: clock_gettime; the kernel keeps rdi and rsi
            "0f 05",  # syscall
            "85 c0",  # test eax, eax
            ("75", "failed"),  # jnz
            "85 ff",  # test edi, edi: CLOCK_REALTIME
            ("74", "move"),  # jz
            "83 ff 05",  # cmp edi, 5: CLOCK_REALTIME_COARSE
            ("75", "done"),  # jne
        ),
        "move": (
            ("48 8b 05", offset_at),  # mov rax, [offset]: one load, so never half a number
            "48 85 c0",  # test rax, rax
            ("74", "done"),  # jz
            "48 99",  # cqo
            "b9 00 ca 9a 3b",  # mov ecx, 1000000000
            "48 f7 f9",  # idiv rcx: rax seconds, rdx nanoseconds, both with the offset's sign
            "48 03 06",  # add rax, [rsi]
            "48 03 56 08",  # add rdx, [rsi + 8]
            "48 85 d2",  # test rdx, rdx
            ("79", "upper"),  # jns
            "48 01 ca",  # add rdx, rcx
            "48 ff c8",  # dec rax
            ("eb", "store"),  # jmp
        ),
        "upper": (
            "48 39 ca",  # cmp rdx, rcx
            ("7c", "store"),  # jl
            "48 29 ca",  # sub rdx, rcx
            "48 ff c0",  # inc rax
        ),
        "store": (
            "48 89 06",  # mov [rsi], rax
            "48 89 56 08",  # mov [rsi + 8], rdx
        ),
        "done": (
            "31 c0",  # xor eax, eax
            "c3",  # ret
        ),
        "failed": (
            "f7 d8",  # neg eax
            "50",  # push rax, which aligns the stack
            ("ff 15", errno_slot),  # call [errno slot]
            "59",  # pop rcx
            "89 08",  # mov [rax], ecx
            "83 c8 ff",  # or eax, -1
            "c3",  # ret
        ),
    }


def _gettimeofday(clock_gettime: int) -> dict[str, tuple[Instruction, ...]]:
    """`int gettimeofday(struct timeval *rdi, void *rsi)`; what rsi points at becomes zeros."""
    return {
        "ask": (
            "57",  # push rdi
            "56",  # push rsi
            "48 83 ec 18",  # sub rsp, 24: a timespec, and the stack aligned
            "31 ff",  # xor edi, edi: CLOCK_REALTIME
            "48 89 e6",  # mov rsi, rsp
            ("e8", clock_gettime),  # call
            "48 8b 44 24 08",  # mov rax, [rsp + 8]
            "31 d2",  # xor edx, edx
            "b9 e8 03 00 00",  # mov ecx, 1000
            "f7 f1",  # div ecx: eax microseconds
            "48 8b 0c 24",  # mov rcx, [rsp]
            "48 83 c4 18",  # add rsp, 24
            "5e",  # pop rsi
            "5f",  # pop rdi
            "48 85 ff",  # test rdi, rdi
            ("74", "zone"),  # jz
            "48 89 0f",  # mov [rdi], rcx
            "48 89 47 08",  # mov [rdi + 8], rax
        ),
        "zone": (
            "48 85 f6",  # test rsi, rsi
            ("74", "done"),  # jz
            "48 c7 06 00 00 00 00",  # mov qword [rsi], 0
        ),
        "done": (
            "31 c0",  # xor eax, eax
            "c3",  # ret
        ),
    }


def _time(clock_gettime: int) -> dict[str, tuple[Instruction, ...]]:
    """`time_t time(time_t *rdi)`, of the coarse clock, as the C library's."""
    return {
        "ask": (
            "57",  # push rdi
            "48 83 ec 10",  # sub rsp, 16
            "bf 05 00 00 00",  # mov edi, 5: CLOCK_REALTIME_COARSE
            "48 89 e6",  # mov rsi, rsp
            ("e8", clock_gettime),  # call
            "48 8b 04 24",  # mov rax, [rsp]
            "48 83 c4 10",  # add rsp, 16
            "5f",  # pop rdi
            "48 85 ff",  # test rdi, rdi
            ("74", "done"),  # jz
            "48 89 07",  # mov [rdi], rax
        ),
        "done": ("c3",),  # ret
    }

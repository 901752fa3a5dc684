"""Decisions of the supervisor, pure: exits, circuit, restarts, pool sizes, renewal, hand-back.

Time is an argument (`now_us`, microseconds of one monotonic clock); decisions are values. Nothing
here imports a clock, a socket, a process or the file system.
"""

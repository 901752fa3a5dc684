"""A time of day that can be moved, for any dynamically linked program on Linux and x86-64.

A shared library of three functions, written here byte by byte, is preloaded (`LD_PRELOAD`): what
asks it for the time of day gets the kernel's, moved by a number that lies in the library's own
file. A page of a file that is mapped is the page cache's, so that one store into the file moves
the clocks of all processes that have it, at once.
"""

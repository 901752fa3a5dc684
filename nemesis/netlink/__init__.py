"""Talking to the kernel about interfaces, packet filters and sockets, without any tool."""

"""The trio shell of one broker node: sockets, files, clock, and no decision of the protocol."""

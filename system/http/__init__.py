"""Queen's HTTP API as pure functions: a request in, a command or an answer out."""

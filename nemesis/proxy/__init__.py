"""The link proxy: a process that carries what goes over each directed link, or spoils it."""

"""The wiretap: a process that records the packets of a private network at each end's cable."""

"""Recording the packets of a private network, before and after whatever a fault does to them."""

"""What people see: the page in a real browser. Run by `make test-page`."""

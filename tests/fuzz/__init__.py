"""Hostile input: the HTTP surface by its document, decoders by coverage."""

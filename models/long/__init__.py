"""Streams longer than memory, and memories that read them in chunks."""

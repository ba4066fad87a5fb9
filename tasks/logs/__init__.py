"""Parsing a user's log files: text in, templates and what each line has in their places out, as a stream."""

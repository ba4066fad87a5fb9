"""One file a job type."""

"""One file a workload: its config and the streams it makes."""

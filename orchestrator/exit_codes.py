"""What `slotsweep` exits with."""

ALL_DONE = 0
TRIALS_FAILED = 1
DISAGREED = 1
WRONG_REQUEST = 2
SYSTEM_FAILED = 3

"""One file a mechanism: its config, its rule as a compiled kernel, and its plain reference."""

"""Running: what happens to a claimed job until its end is written."""

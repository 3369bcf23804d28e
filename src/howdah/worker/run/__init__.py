"""Running: from a claimed job until its end is written."""

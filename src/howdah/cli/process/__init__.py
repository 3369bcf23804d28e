"""The processes of workers: how they are started, watched and ended."""

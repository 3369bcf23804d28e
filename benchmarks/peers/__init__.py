"""Other queues and ours, side by side in one run on one server. See benchmarks/README.md."""

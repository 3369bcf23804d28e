"""Background services of a worker: heartbeat, reconciler, declarations, maintenance."""

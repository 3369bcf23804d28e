"""One small program for each queue, run by that queue's own interpreter. See _protocol.py."""

"""``howdah bench``: how fast the queue is on this machine and this server.

``scenarios`` has what is measured and runs it round by round, in a ``schema`` of its own. ``handlers`` is what the workers
run. ``machine`` says what the figures depend on, ``figures`` sums the rounds up.
"""

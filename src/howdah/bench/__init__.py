"""How fast Howdah is here, on this machine and this server: ``howdah bench``.

``catalogue`` lists what can be measured, ``scenario`` says what each of them is made of: ``enqueueing``, ``draining``,
``reporting``, ``pickup``, ``mixed``. ``run`` plays them, round after round, in an ``arena``: a schema of the bench's own.
``crew`` are the worker processes, each a ``worker_process`` that runs ``handlers`` and counts in a ``tally``.
``measured`` makes figures of the rounds, ``machine`` says what they depend on, ``plot`` draws them.
"""

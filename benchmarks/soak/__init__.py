"""Hours of mixed work with random faults, and what has changed by the end of it: ``python -m benchmarks.soak``.

``load`` defines which jobs come, ``producers`` enqueue them, ``handlers`` run them and note it in a ``ledger``. ``workers`` come and go.
``faults`` plans the faults, ``director`` makes them happen and takes each ``sample``. ``accounts`` finds what was lost or doubled,
``verdict`` what has drifted, and ``picture`` draws it.
"""

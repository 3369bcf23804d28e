"""The verbs: what each sends to the database, and what the answer means.

``JobQueue`` and ``Selection`` make two methods of each plan here (``both``), and run it on the caller's connection if ``conn=`` is
given. ``conn`` is in each signature for the type checkers, which cannot add a keyword to a ``ParamSpec``. Few plans look at it.
"""

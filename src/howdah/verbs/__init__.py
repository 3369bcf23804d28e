"""The verbs: what each sends to the database, and what the answer means.

``JobQueue`` makes two methods of each plan here, and runs it on the caller's connection if ``conn=`` is given. ``conn`` is in
each signature for the type checkers, which cannot add a keyword to a ``ParamSpec``. Few plans look at it.
"""

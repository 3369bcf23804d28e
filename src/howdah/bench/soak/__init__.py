"""``howdah bench soak``: hours of mixed work with random faults, and what has changed by the end of it.

``load`` says which jobs come, ``producers`` bring them, ``handlers`` run them and note it in a ``ledger``. ``staff`` are the
workers, who come and go. ``faults`` says what befalls them and when, ``director`` lets it happen and takes each ``sample``.
``accounts`` finds what was lost or doubled, ``verdict`` what has drifted, and ``picture`` draws it.
"""

"""``howdah demo``: a few hundred simulated jobs, to see the queue at work.

``workload`` says what is to be done, ``crew`` does it, ``tally`` keeps count, ``view`` shows it live, and
``summary`` reads back from the database how it went.
"""

"""``howdah demo``: two real workers and a few hundred jobs, one worker of which is killed.

``stage`` is the schema of the demo's own, ``workload`` what is enqueued there, ``handlers`` what the workers run. ``show`` leads
through the demo and records what it sees in the database; ``view`` draws that, and the table at the end.
"""

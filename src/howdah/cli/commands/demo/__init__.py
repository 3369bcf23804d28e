"""``howdah demo``: two real workers and a few hundred jobs, to see what a queue goes through.

``stage`` is the schema of the demo's own, ``workload`` what is enqueued there, ``handlers`` what the workers
run, ``team`` their processes. ``show`` leads through it and watches the database; ``board`` holds what it has
seen, ``view`` shows that live. ``summary`` reads back how it went, and ``promises`` checks it.
"""

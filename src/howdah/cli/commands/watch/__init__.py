"""``howdah watch``: the progress and the events of jobs, as bars in a terminal and as lines elsewhere."""

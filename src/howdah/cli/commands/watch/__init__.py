"""``howdah watch``: jobs as they go, as bars in a terminal and as lines elsewhere."""

"""``howdah top``: the whole queue on one screen, live."""

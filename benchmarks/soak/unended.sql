SELECT j.id FROM howdah.live AS j

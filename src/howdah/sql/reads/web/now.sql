SELECT howdah.clock() AS now

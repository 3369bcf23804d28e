SELECT w.pid FROM howdah.workers AS w

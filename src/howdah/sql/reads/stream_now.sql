SELECT howdah.stream_position() AS "position"

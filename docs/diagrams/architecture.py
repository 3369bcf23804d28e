"""The parts, and how they are connected."""

from __future__ import annotations

from docs.diagrams.drawing import Drawing


def draw() -> str:
    drawing = Drawing(960, 470, "Producers, workers and operators around one PostgreSQL")
    drawing.parts.append('<rect class="group" x="315" y="30" width="280" height="410" rx="10"/>')
    drawing.text((455, 54), "PostgreSQL, schema howdah", "name")
    for y, lines in (
        (100, ("functions", "every change of a job is one of them")),
        (175, ("live", "jobs that wait or run: small and hot")),
        (250, ("archive, in segments", "jobs that have ended, until dropped")),
        (325, ("events, in segments", "what happened: events, logs, ends")),
        (400, ("types, workers, schedules", "options, heartbeats, next times")),
    ):
        drawing.box((455, y), (258, 54), *lines, kind="end")
    for y, lines in (
        (100, ("your app", "enqueue, also in your transaction")),
        (210, ("any language", "enqueue(…), plain SQL on jobs")),
        (320, ("howdah watch, top, doctor", "and browsers, by server-sent events")),
    ):
        drawing.box((132, y), (248, 54), *lines)
    drawing.parts.append('<rect class="group" x="682" y="60" width="274" height="360" rx="10"/>')
    drawing.text((819, 84), "howdah work, any number", "name")
    for y, lines in (
        (125, ("claimers", "claim a job for each free slot")),
        (195, ("dispatcher", "runs handlers: loop, threads, children")),
        (265, ("completer", "writes ends in batches, with tokens")),
        (335, ("heartbeat, sweep", "on connections of their own")),
    ):
        drawing.box((819, y), (256, 54), *lines)
    drawing.arrow((258, 100), (324, 100))
    drawing.arrow((258, 200), (324, 114))
    drawing.arrow((324, 325), (258, 320))
    drawing.arrow((586, 90), (689, 120), "jobs")
    drawing.arrow((689, 265), (586, 112))
    drawing.text((644, 216), "ends", "faint halo right")
    drawing.arrow((689, 340), (586, 395))
    drawing.text((608, 408), "heartbeats", "faint halo left")
    drawing.arrow((819, 152), (819, 168))
    drawing.arrow((819, 222), (819, 238))
    drawing.text((819, 386), "a notification wakes them;", "faint")
    drawing.text((819, 402), "they also poll each second", "faint")
    return drawing.svg()

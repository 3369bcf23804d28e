"""Texts that would run as a program, or leave their place, if a page did not escape them."""

from __future__ import annotations

from howdah import Job, JobQueue

CORPUS = (
    "<script>window.hacked = 1</script>",
    "\"><img src=x onerror='window.hacked=1'>",
    "'-alert(1)-'",
    "{{ 7919 * 7907 }}{% for x in ().__class__ %}",
    "</title></textarea></style><svg onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "<iframe srcdoc='<script>parent.hacked=1</script>'>",
    "--></pre><a href=javascript:window.hacked=1 autofocus onfocus=window.hacked=1>x</a>",
    "\u202etxt.exe \u2066\u2069 ﷺ" + "Ａ" * 40,
)


def plant(queue: JobQueue) -> list[Job]:
    """Jobs with these texts wherever a user's text can be: types, keys, arguments, results, errors, stages, events, logs, reasons, workers."""
    jobs = []
    for place, text in enumerate(CORPUS):
        job_type = text[:50]
        queue.enqueue(job_type, {text: [text, {"deep": text}]}, key=text[:200].replace("\n", " "))
        (job,) = queue.claim([job_type], worker_id=text[:100])
        queue.start(job)
        queue.progress(job, 40, text[:100])
        queue.event(job, text[:100], {text: text})
        if place % 3 == 0:
            queue.fail(job, text)
        elif place % 3 == 1:
            queue.complete(job, {"said": text})
        jobs.append(queue.get(job))
        waiting = queue.enqueue(job_type, {"again": text})
        if place % 2:
            queue.cancel(waiting, text)
        queue.pause(job_type, text)
        with queue.workflow(text[:100], data={text: text}, key=text[:200], meta={text: text}) as flow:
            first = flow.add(job_type, name=text[:100], text=text)
            flow.add(job_type, name=f"{place} {text}"[:100], after=first, when="always")
        flow.cancel(text)
        queue.signal(text[:100], {text: text}, key=text[:200])
        queue.schedules.set(text[:100], job_type, {"text": text}, every=3600)
    return jobs

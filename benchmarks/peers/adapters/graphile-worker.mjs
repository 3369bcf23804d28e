// Graphile Worker in its fastest mode, as its page about performance configures it: a local queue, completions in batches.
import { EventEmitter } from "node:events";
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { main, monotonic, paced, payload, terminated, timed, Unsupported, url } from "./_protocol.mjs";

const CONCURRENCY = 24;
const LOCAL_QUEUE = 500;
const BULK = 10_000;

const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const preset = {
  worker: {
    connectionString: url,
    concurrentJobs: CONCURRENCY,
    maxPoolSize: CONCURRENCY + 1,
    localQueue: { size: LOCAL_QUEUE },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger,
  },
};

await main({
  name: "graphile-worker",
  settings: `fastest mode: concurrentJobs ${CONCURRENCY}, localQueue ${LOCAL_QUEUE}, completeJobBatchDelay 0`,
  keepsHistory: false,
  durable: "PostgreSQL, synchronous_commit on",
  remaining: "SELECT EXISTS (SELECT FROM graphile_worker._private_jobs)",
  setup: () => runMigrations({ preset }),
  enqueue,
  bulk,
  pickupSender,
  work,
});

async function enqueue(count, producers) {
  const utils = await makeWorkerUtils({ preset });
  await utils.addJob("noop", payload());
  return timed(count, producers, (each) => utils.addJob("noop", each));
}

async function bulk(count) {
  const utils = await makeWorkerUtils({ preset });
  const started = monotonic();
  for (let left = count; left > 0; left -= BULK) {
    const specs = Array.from({ length: Math.min(left, BULK) }, () => ({ identifier: "noop", payload: payload() }));
    await utils.addJobs(specs);
  }
  return monotonic() - started;
}

async function pickupSender(count, pause) {
  const utils = await makeWorkerUtils({ preset });
  for await (const each of paced(count, pause)) await utils.addJob("noop", each);
}

async function work(handler, tally) {
  if (handler !== "async") throw new Unsupported("a handler has one job, and is async");
  const events = new EventEmitter();
  events.once("pool:listen:success", () => tally.ready());
  const runner = await run({
    preset,
    events,
    noHandleSignals: true,
    taskList: { noop: async (job) => tally.one(job.sent) },
  });
  await terminated();
  await runner.stop();
}

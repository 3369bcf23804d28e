// pg-boss with large batches, fetched without a pause while they come back full, and woken by NOTIFY when idle.
import { PgBoss } from "pg-boss";
import { main, monotonic, paced, payload, terminated, timed, Unsupported, url } from "./_protocol.mjs";

const BATCH = 1000;
const WORKERS = 4;
const BULK = 10_000;
const QUEUE = "noop";

await main({
  name: "pg-boss",
  settings: `batchSize ${BATCH}, burstWhenBatchFull, localConcurrency ${WORKERS}, useListenNotify`,
  keepsHistory: true,
  durable: "PostgreSQL, synchronous_commit on",
  remaining: `SELECT EXISTS (SELECT FROM pgboss.job WHERE name = '${QUEUE}' AND state < 'completed')`,
  setup,
  enqueue,
  bulk,
  pickupSender,
  work,
});

async function started(options) {
  const boss = new PgBoss({ connectionString: url, schedule: false, ...options });
  boss.on("error", console.error);
  return boss.start();
}

function producer(options = {}) {
  return started({ supervise: false, ...options });
}

async function setup() {
  const boss = await started();
  await boss.createQueue(QUEUE, { notify: true });
  await boss.stop();
}

async function enqueue(count, producers) {
  const boss = await producer({ max: Math.max(producers, 10) });
  return timed(count, producers, (each) => boss.send(QUEUE, each));
}

async function bulk(count) {
  const boss = await producer();
  const began = monotonic();
  for (let left = count; left > 0; left -= BULK) {
    await boss.insert(
      QUEUE,
      Array.from({ length: Math.min(left, BULK) }, () => ({ data: payload() })),
    );
  }
  return monotonic() - began;
}

async function pickupSender(count, pause) {
  const boss = await producer();
  for await (const each of paced(count, pause)) await boss.send(QUEUE, each);
}

async function work(handler, tally) {
  if (handler === "sync") throw new Unsupported("it has no threads");
  const boss = await started({ useListenNotify: true });
  const handlers = {
    async: async (jobs) => jobs.forEach((job) => tally.one(job.data.sent)),
    batch: async (jobs) => tally.many(jobs.length),
  };
  const options = { batchSize: BATCH, localConcurrency: WORKERS, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
  await boss.work(QUEUE, options, handlers[handler]);
  tally.ready();
  await terminated();
  await boss.stop();
}

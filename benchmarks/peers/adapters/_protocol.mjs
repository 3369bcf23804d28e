// What every adapter in JavaScript speaks: see _protocol.py, which says it in full.
import { readFileSync, writeSync } from "node:fs";
import { parseArgs } from "node:util";

export const url = process.env.BENCH_URL;
const REPORT_EVERY = 20; // milliseconds

export class Unsupported extends Error {}

// process.hrtime reads CLOCK_MONOTONIC, as time.monotonic() of Python does.
export const monotonic = () => Number(process.hrtime.bigint()) / 1e9;

export const say = (line) => writeSync(1, `${line}\n`);

export const payload = () => ({ sent: monotonic() });

export class Tally {
  handled = 0;
  first = null;
  last = null;
  latencies = process.env.BENCH_LATENCY === "1" ? [] : undefined;

  one(sent) {
    this.last = monotonic();
    this.first ??= this.last;
    this.handled += 1;
    this.latencies?.push(this.last - sent);
  }

  many(count) {
    this.last = monotonic();
    this.first ??= this.last;
    this.handled += count;
  }

  ready() {
    say("READY");
    let said = 0;
    setInterval(() => {
      if (this.handled !== said) say(`HANDLED ${(said = this.handled)} ${process.pid}`);
    }, REPORT_EVERY).unref();
  }

  saySummary() {
    say(JSON.stringify({ handled: this.handled, first: this.first, last: this.last, latencies: this.latencies }));
  }
}

/** How many seconds so many producers take to enqueue `count` payloads between them, each one after the other. */
export async function timed(count, producers, enqueue) {
  const produce = async (share) => {
    for (let index = 0; index < share; index++) await enqueue(payload());
  };
  const started = monotonic();
  await Promise.all(
    Array.from({ length: producers }, (_, index) =>
      produce(Math.floor(count / producers) + (index < count % producers ? 1 : 0)),
    ),
  );
  return monotonic() - started;
}

/** A payload each `pause` seconds, ± 20 %, so that no poller's rhythm is met by accident. */
export async function* paced(count, pause) {
  for (let index = 0; index < count; index++) {
    await new Promise((done) => setTimeout(done, pause * 1000 * (0.8 + 0.4 * Math.random())));
    yield payload();
  }
}

export const terminated = () => new Promise((done) => process.once("SIGTERM", done));

export async function main(adapter) {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      count: { type: "string" },
      producers: { type: "string", default: "1" },
      pause: { type: "string", default: "0.05" },
      handler: { type: "string", default: "async" },
    },
  });
  const answer = await answerTo(adapter, positionals[0], values).catch((error) => {
    if (error instanceof Unsupported) return { unsupported: error.message };
    console.error(error);
    process.exit(1);
  });
  if (answer) say(JSON.stringify(answer));
  process.exit(0);
}

async function answerTo(adapter, command, values) {
  const count = Number(values.count);
  switch (command) {
    case "setup":
      await adapter.setup();
      return { setup: true };
    case "facts":
      return facts(adapter);
    case "remaining":
      return { sql: adapter.remaining };
    case "enqueue":
      return { jobs: count, seconds: await adapter.enqueue(count, Number(values.producers)) };
    case "bulk":
      return { jobs: count, seconds: await adapter.bulk(count) };
    case "pickup-sender":
      await adapter.pickupSender(count, Number(values.pause));
      return { jobs: count };
    case "work":
      return work(adapter, values.handler);
  }
  throw new Error(`no such command: ${command}`);
}

async function work(adapter, handler) {
  const tally = new Tally();
  if (process.env.BENCH_GATE === "1") {
    say("LOADED");
    await new Promise((go) => process.stdin.once("data", go));
    process.stdin.destroy();
  }
  await adapter.work(handler, tally);
  tally.saySummary();
}

function facts({ name, settings, keepsHistory, durable }) {
  const file = new URL(`./node_modules/${name}/package.json`, import.meta.url);
  return {
    name,
    version: JSON.parse(readFileSync(file, "utf8")).version,
    language: "JavaScript",
    interpreter: `Node ${process.versions.node}`,
    settings,
    keeps_history: keepsHistory,
    durable,
  };
}

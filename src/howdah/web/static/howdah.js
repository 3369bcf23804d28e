// The one module of the dashboard, for the pages and for the worker that they share.
//
// The worker has one EventSource for all pages of a browser, and closes it while no page is visible. On a tick, a page fetches itself again and takes
// over what has changed in its live regions. Without this module, all forms and links work, but a page changes only when it is loaded again.

const LOST_AFTER = 25000;

// The stream: in the shared worker, or in the page where browsers have none.

class Stream {
  constructor(root, deliver) {
    this.root = root;
    this.deliver = deliver;
    this.source = null;
    this.last = 0;
    this.wait = 500;
    setInterval(() => this.check(), 5000);
  }

  open() {
    if (this.source) return;
    const source = (this.source = new EventSource(`${this.root}/live`));
    source.addEventListener("hello", () => {
      this.wait = 500;
      this.received({ kind: "state", state: "live" });
      this.received({ kind: "tick" });
    });
    source.addEventListener("tick", () => this.received({ kind: "tick" }));
    source.addEventListener("progress", (event) => this.received({ kind: "progress", jobs: JSON.parse(event.data) }));
    source.onerror = () => this.retry();
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  received(message) {
    this.last = Date.now();
    this.deliver(message);
  }

  // A browser gives up after some errors, and does not notice a connection that is silent.
  retry() {
    if (!this.source) return;
    this.close();
    this.deliver({ kind: "state", state: "lost" });
    setTimeout(() => this.wanted?.() && this.open(), this.wait);
    this.wait = Math.min(this.wait * 1.6, 5000);
  }

  check() {
    if (this.source && this.last && Date.now() - this.last > LOST_AFTER) this.retry();
  }
}

function serve() {
  const pages = new Map();
  let stream = null;
  let state = "none";
  const isWanted = () => [...pages.values()].some((page) => page.visible);
  const update = () => (isWanted() ? stream.open() : stream.close());
  self.onconnect = ({ ports: [port] }) => {
    port.onmessage = ({ data }) => {
      if (data.kind === "gone") {
        pages.delete(port);
      } else {
        pages.set(port, { visible: data.visible, at: Date.now() });
        stream ??= Object.assign(
          new Stream(data.root, (message) => {
            if (message.kind === "state") state = message.state;
            for (const [each, page] of pages) if (page.visible) each.postMessage(message);
          }),
          { wanted: isWanted },
        );
        if (data.visible && stream.source) port.postMessage({ kind: "state", state });
      }
      if (stream) update();
    };
    port.start();
  };
  // A page that crashed sends no "gone".
  setInterval(() => {
    for (const [port, page] of pages) if (Date.now() - page.at > 60000) pages.delete(port);
    if (stream) update();
  }, 20000);
}

// A page

const patches = new Map();

function listen() {
  const root = document.body.dataset.root;
  const visible = () => document.visibilityState === "visible";
  if (typeof SharedWorker === "function") {
    const { port } = new SharedWorker(import.meta.url, { type: "module", name: `howdah ${root}` });
    const report = () => port.postMessage({ kind: "here", visible: visible(), root });
    port.onmessage = ({ data }) => receive(data);
    document.addEventListener("visibilitychange", report);
    addEventListener("pagehide", () => port.postMessage({ kind: "gone" }));
    addEventListener("pageshow", (event) => event.persisted && report());
    setInterval(report, 20000);
    report();
  } else {
    const stream = Object.assign(new Stream(root, receive), { wanted: visible });
    const update = () => (visible() ? stream.open() : stream.close());
    document.addEventListener("visibilitychange", update);
    update();
  }
}

function receive(message) {
  if (message.kind === "state") {
    const words = { live: "live", lost: "connection lost, trying again", none: "not live" };
    const shown = document.getElementById("connection");
    if (shown.dataset.state !== message.state) {
      shown.dataset.state = message.state;
      shown.querySelector(".words").textContent = words[message.state];
    }
  } else if (message.kind === "tick") {
    refresh();
  } else {
    const at = performance.now();
    for (const job of message.jobs) {
      patches.set(job.id, { job, at });
      apply(job);
    }
  }
}

function apply(job) {
  for (const place of document.querySelectorAll(`[data-job="${CSS.escape(job.id)}"]`)) {
    const part = (name) => place.querySelector(`[data-part="${name}"]`);
    const bar = part("bar");
    if (bar && job.percent !== null) {
      bar.hidden = false;
      bar.querySelector("progress").value = job.percent;
      part("percent").textContent = `${Math.round(job.percent)}%`;
    }
    for (const name of ["stage", "amounts", "left"]) {
      const shown = part(name);
      if (shown && shown.textContent !== job[name]) shown.textContent = job[name];
    }
  }
}

let busy = false;

async function refresh() {
  const regions = document.querySelectorAll("[data-live]");
  if (busy || !regions.length || document.visibilityState !== "visible") return;
  busy = true;
  const began = performance.now();
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error", signal: AbortSignal.timeout(20000) });
    if (!(response.headers.get("content-type") ?? "").startsWith("text/html")) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    const wasTrouble = document.getElementById("trouble");
    if (wasTrouble && response.ok) return location.reload();
    if (fresh.body.dataset.version !== document.body.dataset.version) return location.reload();
    if (!response.ok) return;
    for (const region of regions) {
      const other = fresh.getElementById(region.id);
      if (other) morph(region, document.importNode(other, true));
    }
    for (const [id, { job, at }] of patches) at > began ? apply(job) : patches.delete(id);
    count();
  } catch {
    // When the server is away, the stream shows it.
  } finally {
    busy = false;
  }
}

// Makes a tree of nodes like another one, and keeps what is the same: the focus, what is ticked and what is open.

function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || (old.id ?? "") !== (fresh.id ?? "")) {
    old.replaceWith(fresh);
  } else if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
  } else if (!(old.hasAttribute("data-keep") && old.matches("input, select, textarea"))) {
    const keeps = old.hasAttribute("data-keep") || old.matches("details");
    for (const { name } of [...old.attributes])
      if (!fresh.hasAttribute(name) && !(keeps && name === "open")) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes)
      if (old.getAttribute(name) !== value && !(keeps && name === "open")) old.setAttribute(name, value);
    morphChildren(old, fresh);
  }
}

function morphChildren(old, fresh) {
  const named = new Map([...old.children].filter((each) => each.id).map((each) => [each.id, each]));
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const same = wanted.id && named.get(wanted.id);
    if (same) {
      if (same === place) place = place.nextSibling;
      else old.insertBefore(same, place);
      morph(same, wanted);
    } else if (place && !place.id && !wanted.id && place.nodeName === wanted.nodeName) {
      const next = place.nextSibling;
      morph(place, wanted);
      place = next;
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

// Dialogs: a form asks the server what it would do, or only asks back.

const dialog = typeof document === "object" ? document.getElementById("dialog") : null;

function ask(content) {
  const place = document.getElementById("dialog-content");
  place.replaceChildren(...content);
  if (!dialog.open) dialog.showModal();
  (place.querySelector("input:not([type=hidden]), button") ?? dialog).focus();
}

async function askServer(form, submitter) {
  const query = new URLSearchParams(new FormData(form, submitter));
  const address = `${form.action}?${query}`;
  const response = await fetch(address, { headers: { accept: "text/html" } });
  const source = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("dialog-source");
  if (!response.ok || !source) location.assign(address);
  else ask([...document.importNode(source, true).childNodes]);
}

function askBack(form) {
  const title = Object.assign(document.createElement("h1"), { id: "dialog-title", textContent: form.dataset.confirm });
  const yes = Object.assign(document.createElement("button"), { className: "danger", textContent: form.textContent.trim() });
  const no = Object.assign(document.createElement("button"), { textContent: "Leave it" });
  yes.onclick = () => form.submit();
  no.onclick = () => dialog.close();
  const buttons = Object.assign(document.createElement("p"), { className: "row" });
  buttons.append(no, yes);
  ask([title, buttons]);
}

// Lists

const ticks = () => [...document.querySelectorAll('#list input[name="id"]')];

function count() {
  const shown = document.getElementById("chosen");
  if (!shown) return;
  const ticked = ticks().filter((each) => each.checked).length;
  const words = ticked ? `${ticked} selected` : "";
  if (shown.textContent !== words) shown.textContent = words;
  const all = document.querySelector("[data-all]");
  if (all) {
    all.checked = ticked > 0 && ticked === ticks().length;
    all.indeterminate = ticked > 0 && ticked < ticks().length;
  }
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copy).textContent;
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text).catch(() => copyOld(text));
  } else {
    copyOld(text);
  }
  const said = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = said), 1500);
}

// Over plain HTTP, browsers have no clipboard.
function copyOld(text) {
  const area = Object.assign(document.createElement("textarea"), { value: text, className: "visually-hidden" });
  (dialog.open ? dialog : document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea") || dialog.open) return;
  if (event.key === "/") {
    const field = document.querySelector('#filters input[name="path"]');
    if (field) {
      event.preventDefault();
      field.focus();
    }
  } else if (event.key === "j" || event.key === "k") {
    const links = [...document.querySelectorAll("table.jobs a.id")];
    const place = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    links[Math.max(0, Math.min(place, links.length - 1))]?.focus();
  }
}

function begin() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.matches("[data-dialog]")) {
      event.preventDefault();
      const chosen = form.elements.scope?.value !== "all";
      if (chosen && !ticks().some((each) => each.checked)) {
        document.getElementById("chosen").textContent = "Select some jobs first, or choose all that match.";
        return;
      }
      askServer(form, event.submitter);
    } else if (form.matches("[data-confirm]")) {
      event.preventDefault();
      askBack(form);
    }
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.copy");
    if (button) copy(button);
    if (event.target.closest?.("dialog [data-close]")) {
      event.preventDefault();
      dialog.close();
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) for (const each of ticks()) each.checked = event.target.checked;
    if (event.target.matches("[data-all], input[name=id]")) count();
  });
  document.addEventListener("keydown", onKey);
  // Empty fields would only make the address long.
  document.getElementById("filters")?.addEventListener("formdata", ({ formData }) => {
    for (const [name, value] of [...formData]) if (value === "") formData.delete(name);
  });
  listen();
}

if (typeof SharedWorkerGlobalScope === "function" && self instanceof SharedWorkerGlobalScope) serve();
else begin();

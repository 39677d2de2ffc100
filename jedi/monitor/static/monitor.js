// Pages without this script can be read; with it they stay fresh.
"use strict";
(() => {
  const body = document.body;
  const main = document.getElementById("live");
  const asOf = document.getElementById("as-of");
  const pause = document.getElementById("pause");
  const topics = (body.dataset.topics || "").split(" ").filter(Boolean);
  const FASTEST_MS = 2000; // between two readings of a page
  const BLIND_MS = 30000; // a page in sight without a stream is read again after so long
  const QUIET_MS = topics.includes("agents") ? 60000 : 900000; // one with a stream, without news
  const PATIENCE = 20; // a page rests this many times as long as its last reading took
  let paused = false;
  let timer = null;
  let restUntil = performance.now() + FASTEST_MS;
  let dirty = false;

  // --- times, relative to now -----------------------------------------------------------------
  const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });
  function relative(seconds) {
    const [unit, length] = UNITS.find(([, n]) => Math.abs(seconds) >= n) || UNITS[3];
    return words.format(Math.trunc(seconds / length), unit);
  }
  function showTimes() {
    const now = Date.now();
    for (const one of document.querySelectorAll("time[datetime]")) {
      const at = Date.parse(one.dateTime);
      one.textContent = relative((at - now) / 1000);
      one.title = new Date(at).toLocaleString([], { timeZoneName: "short" });
    }
  }

  // --- fresh pages -----------------------------------------------------------------------------
  function texts() {
    return new Map([...main.querySelectorAll("tr[id]")].map((row) => [row.id, row.innerText]));
  }
  function markChanges(before) {
    for (const row of main.querySelectorAll("tr[id]")) {
      row.classList.toggle("changed", before.size > 0 && before.get(row.id) !== row.innerText);
    }
  }
  function stamp() {
    asOf.hidden = false;
    asOf.textContent = `as of ${new Date().toLocaleTimeString([], { timeZoneName: "short" })}`;
  }
  async function read() {
    clearTimeout(timer);
    timer = null;
    dirty = false;
    const begun = performance.now();
    const before = texts();
    try {
      await htmx.ajax("GET", location.href, { target: "#live", swap: "innerMorph" });
      showTimes();
      markChanges(before);
      stamp();
    } catch (error) {
      asOf.textContent = "The service does not answer.";
    }
    restUntil = performance.now() + Math.max(FASTEST_MS, PATIENCE * (performance.now() - begun));
    later(quiet());
  }
  function quiet() {
    return body.dataset.stream === "live" ? QUIET_MS : BLIND_MS;
  }
  function later(ms) {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(read, ms);
  }
  function news(changed) {
    if (!changed.some((one) => topics.includes(one))) return;
    dirty = true;
    if (!paused && !document.hidden) later(Math.max(0, restUntil - performance.now()));
  }
  function follow() {
    if (!topics.length) return;
    stamp();
    pause.hidden = false;
    let tell = () => {};
    const take = ({ data }) => {
      if (data.changed) news(data.changed);
      if (!data.state) return;
      const fresh = body.dataset.stream !== "live" && data.state === "live";
      body.dataset.stream = data.state;
      if (fresh) news(topics); // there may have been changes while there was no stream
      else if (!dirty) later(quiet());
    };
    try {
      const worker = new SharedWorker(body.dataset.worker);
      worker.port.addEventListener("message", take);
      worker.port.start();
      tell = (said) => worker.port.postMessage(said);
    } catch { /* a browser without shared workers: the page is read again from time to time */ }
    const inSight = () => {
      tell(document.hidden || paused ? "out of sight" : "in sight");
      dirty ||= document.hidden; // a tab out of sight gets no news
      if (document.hidden || paused) clearTimeout(timer);
      else later(dirty ? Math.max(0, restUntil - performance.now()) : quiet());
    };
    document.addEventListener("visibilitychange", inSight);
    addEventListener("pagehide", () => tell("end"));
    addEventListener("pageshow", ({ persisted }) => persisted && inSight());
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.textContent = paused ? "Go on" : "Pause";
      pause.setAttribute("aria-pressed", String(paused));
      inSight();
      if (!paused) read();
    });
    inSight();
  }

  // --- colours ---------------------------------------------------------------------------------
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const next = (root.dataset.theme || system) === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    try { localStorage.setItem("jedi-theme", next); } catch { /* for this page alone */ }
  });

  showTimes();
  setInterval(showTimes, 10000);
  follow();
})();

// A shared worker: one stream of changes for all tabs of a browser (HTTP/1.1 allows six connections
// to a host). Only while a tab in sight listens.
"use strict";
const ports = new Map(); // port -> the tab is in sight
let source = null;

function send(message) {
  for (const [port, inSight] of ports) if (inSight) port.postMessage(message);
}

function follow() {
  const wanted = [...ports.values()].some(Boolean);
  if (wanted && !source) {
    source = new EventSource("/live");
    source.addEventListener("changes", (event) => send({ changed: event.data.split(" ") }));
    source.addEventListener("open", () => send({ state: "live" }));
    source.addEventListener("error", () => {
      send({ state: source.readyState === EventSource.CLOSED ? "closed" : "lost" });
      if (source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(follow, 5000);
      }
    });
  } else if (!wanted && source) {
    source.close();
    source = null;
  }
}

addEventListener("connect", (event) => {
  const port = event.ports[0];
  ports.set(port, false);
  port.addEventListener("message", ({ data }) => {
    if (data === "end") ports.delete(port);
    else ports.set(port, data === "in sight");
    follow();
    if (data === "in sight" && source && source.readyState === EventSource.OPEN) {
      port.postMessage({ state: "live" });
    }
  });
  port.start();
});

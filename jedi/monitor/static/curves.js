// Curves over time: uPlot draws the numbers of a figure's table. Without this script the figure
// shows the server's lines.
"use strict";
(() => {
  const drawn = new Map(); // the id of a figure -> its plot and the colours that it has
  const DASHES = { s1: [7, 3], s2: [2, 3], s3: [9, 3, 2, 3], s4: [12, 4], s5: [4, 4], s6: [1, 4],
    s7: [12, 3, 2, 3], bad: [7, 3], slow: [2, 3] };

  function data(figure) {
    const rows = [...figure.querySelectorAll(".numbers tbody tr")];
    const times = rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
    const heads = [...figure.querySelectorAll(".numbers thead th")].slice(1).map((one) => one.textContent);
    const values = heads.map((_, nr) => rows.map((row) => {
      const found = row.cells[nr + 1].querySelector("data");
      return found ? Number(found.value) : null;
    }));
    return { heads, columns: [times, ...values] };
  }
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }
  function theme() {
    return `${colour("--paper")} ${colour("--ink")}`;
  }
  function hours(_, ticks) {
    return ticks.map((one, nr) => {
      const at = new Date(one * 1000);
      const two = (n) => String(n).padStart(2, "0");
      const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      const clock = `${two(at.getHours())}:${two(at.getMinutes())}`;
      const zone = nr ? "" : ` ${at.toLocaleTimeString([], { timeZoneName: "short" }).split(" ").pop()}`;
      return nr === 0 || clock === "00:00" ? `${clock}\n${day}${zone}` : clock;
    });
  }
  function make(figure, place, found) {
    const looks = place.dataset.looks.split(" ");
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line") }, font: "12px system-ui, sans-serif" };
    return new uPlot({
      width: figure.clientWidth, height: 200, cursor: { y: false },
      scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, values: hours, space: 60 }, { ...axis, size: 56 }],
      series: [{ value: (_, one) => (one === null ? "–" : new Date(one * 1000).toLocaleString([], { timeZoneName: "short" })) }, ...found.heads.map((label, nr) => ({
        label, stroke: colour(`--f-${looks[nr]}`), width: 2, dash: DASHES[looks[nr]],
        points: { show: found.columns[0].length < 2 },
        value: (_, one) => (one === null ? "–" : `${one} ${place.dataset.unit}`),
      }))],
    }, found.columns, place);
  }
  function show(figure) {
    const place = figure.querySelector(".plot");
    const found = data(figure);
    if (!found.columns[0].length) return;
    const kind = `${theme()} ${place.dataset.looks} ${found.heads.join()}`;
    const known = drawn.get(figure.id);
    if (known && known.kind === kind && known.place === place) {
      known.plot.setData(found.columns);
      return;
    }
    if (known) known.plot.destroy();
    place.replaceChildren();
    drawn.set(figure.id, { kind, place, plot: make(figure, place, found) });
  }
  function showAll() {
    for (const one of document.querySelectorAll("figure.curves")) show(one);
  }
  addEventListener("resize", () => {
    for (const [id, one] of drawn) {
      const figure = document.getElementById(id);
      if (figure) one.plot.setSize({ width: figure.clientWidth, height: 200 });
    }
  });
  new MutationObserver(showAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showAll);
  document.addEventListener("htmx:after:swap", showAll);
  showAll();
})();

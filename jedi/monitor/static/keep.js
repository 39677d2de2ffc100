// Charts as PNG: the browser paints the drawing, with the colours that it has on the page.
"use strict";
(() => {
  const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray",
    "opacity", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "paint-order", "display"];
  const SCALE = 2; // pixels of the picture for each of the page

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }
  function withLooks(svg) {
    const copy = svg.cloneNode(true);
    const to = [copy, ...copy.querySelectorAll("*")];
    [svg, ...svg.querySelectorAll("*")].forEach((one, nr) => {
      const found = getComputedStyle(one);
      for (const look of LOOKS) {
        const value = found.getPropertyValue(look);
        if (value) to[nr].setAttribute(look, value.replace(/url\("[^#]*#([^"]*)"\)/, "url(#$1)"));
      }
    });
    const box = svg.getBoundingClientRect();
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    return new XMLSerializer().serializeToString(copy);
  }
  async function picture(svg) {
    const address = URL.createObjectURL(new Blob([withLooks(svg)], { type: "image/svg+xml" }));
    const image = new Image();
    image.src = address;
    await image.decode();
    URL.revokeObjectURL(address);
    return image;
  }
  async function canvasOf(figure) {
    const plot = figure.querySelector("canvas");
    const svg = figure.querySelector("svg");
    const box = (plot || svg).getBoundingClientRect();
    const title = figure.querySelector("figcaption").firstChild.textContent.trim();
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(box.width * SCALE);
    canvas.height = Math.ceil((box.height + 28) * SCALE);
    const brush = canvas.getContext("2d");
    brush.scale(SCALE, SCALE);
    brush.fillStyle = colour("--paper");
    brush.fillRect(0, 0, canvas.width, canvas.height);
    brush.fillStyle = colour("--ink");
    brush.font = "600 14px system-ui, sans-serif";
    brush.fillText(title, 4, 18);
    brush.drawImage(plot || (await picture(svg)), 0, 28, box.width, box.height);
    return canvas;
  }
  async function keep(button) {
    const figure = button.closest("figure");
    const canvas = await canvasOf(figure);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${figure.id || "chart"}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    button.dataset.kept = `${canvas.width}x${canvas.height}`;
  }
  function offer() {
    for (const one of document.querySelectorAll("figure .png")) one.hidden = false;
  }
  document.addEventListener("click", ({ target }) => {
    if (target.matches("figure .png")) keep(target);
  });
  document.addEventListener("htmx:after:swap", offer);
  offer();
})();

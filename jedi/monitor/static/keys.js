// Pages by keyboard: rows, the filter, the pages of the menu, and a list of the keys.
"use strict";
(() => {
  const main = document.getElementById("live");
  const button = document.getElementById("keys");
  const KEYS = [
    ["j or ↓", "next row"], ["k or ↑", "row before"], ["Enter", "open the row's page"],
    ["/", "go to the filter"], ["g, then a letter", "the page of the menu with that letter"],
    ["p", "pause or go on"], ["?", "these keys"],
  ];
  let dialog = null;
  let goes = false; // the key before was g

  function typing(target) {
    return target.closest("input, select, textarea, [contenteditable], dialog");
  }
  function move(step) {
    const rows = [...main.querySelectorAll("tbody tr")].filter((row) => row.offsetParent);
    if (!rows.length) return false;
    const at = rows.indexOf(document.activeElement.closest("tr"));
    const row = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
    row.tabIndex = -1;
    row.focus();
    row.scrollIntoView({ block: "nearest" });
    return true;
  }
  function open() {
    const row = document.activeElement.closest("tbody tr");
    const link = row && row === document.activeElement && row.querySelector("a[href]");
    if (link) link.click();
    return Boolean(link);
  }
  function filter() {
    const field = main.querySelector('[role="search"] input:not([type="hidden"]), input[name="where"]');
    if (field) field.focus();
    return Boolean(field);
  }
  function page(letter) {
    const links = [...document.querySelectorAll("header nav a")];
    const found = links.find((one) => one.textContent.trim().toLowerCase().startsWith(letter));
    if (found) found.click();
    return Boolean(found);
  }
  function pause() {
    const found = document.getElementById("pause");
    if (found && !found.hidden) found.click();
    return true;
  }
  function show() {
    if (!dialog) {
      dialog = document.createElement("dialog");
      dialog.setAttribute("aria-labelledby", "keys-title");
      const title = document.createElement("h2");
      title.id = "keys-title";
      title.textContent = "Keys";
      const list = document.createElement("dl");
      for (const [key, meaning] of KEYS) {
        const term = document.createElement("dt");
        const name = document.createElement("kbd");
        const text = document.createElement("dd");
        name.textContent = key;
        text.textContent = meaning;
        term.append(name);
        list.append(term, text);
      }
      const close = document.createElement("button");
      close.textContent = "Close";
      close.addEventListener("click", () => dialog.close());
      dialog.append(title, list, close);
      document.body.append(dialog);
    }
    if (!dialog.open) dialog.showModal();
    return true;
  }
  const ACTS = {
    j: () => move(1), ArrowDown: () => main.contains(document.activeElement.closest("tbody tr")) && move(1),
    k: () => move(-1), ArrowUp: () => main.contains(document.activeElement.closest("tbody tr")) && move(-1),
    Enter: open, "/": filter, "?": show, p: pause,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    const act = goes && /^[a-z]$/.test(event.key) ? () => page(event.key) : ACTS[event.key];
    goes = event.key === "g" && !goes;
    if (act && act()) event.preventDefault();
  });
  button.hidden = false;
  button.addEventListener("click", show);
})();

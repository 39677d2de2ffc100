// Chosen rows of lists: all rows of a page at once, their number, and the choice outlives fresh
// readings of the page.
"use strict";
(() => {
  const main = document.getElementById("live");
  const chosen = new Map(); // form -> values
  // a form with controls named "id" has them in place of its own .id
  const boxes = (form) => [...document.querySelectorAll(`input[type="checkbox"][name="id"][form="${form}"]`)];
  const of = (form) => chosen.get(form) || chosen.set(form, new Set()).get(form);

  function show(form) {
    const found = of(form);
    const here = boxes(form);
    const element = document.getElementById(form);
    if (!element) return;
    const n = here.filter((one) => one.checked).length;
    const kind = element.dataset.kind;
    element.querySelector(".number-chosen").textContent =
      n ? `With ${n} chosen ${kind}${n === 1 ? "" : "s"}:` : `Choose ${kind}s:`;
    for (const one of element.querySelectorAll("button")) one.disabled = n === 0;
    for (const all of document.querySelectorAll(`input[data-all="${form}"]`)) {
      all.hidden = false;
      all.checked = n > 0 && n === here.length;
      all.indeterminate = n > 0 && n < here.length;
    }
    for (const value of found) if (!here.some((one) => one.value === value)) found.delete(value);
  }
  function restore() {
    for (const element of document.querySelectorAll("form[data-kind]")) {
      for (const one of boxes(element.getAttribute("id"))) one.checked = of(element.getAttribute("id")).has(one.value);
      show(element.getAttribute("id"));
    }
  }
  main.addEventListener("change", ({ target }) => {
    if (target.dataset.all) {
      for (const one of boxes(target.dataset.all)) keep(one, target.checked);
      show(target.dataset.all);
    } else if (target.name === "id" && target.getAttribute("form")) {
      keep(target, target.checked);
      show(target.getAttribute("form"));
    }
  });
  function keep(box, wanted) {
    box.checked = wanted;
    of(box.getAttribute("form"))[wanted ? "add" : "delete"](box.value);
  }
  for (const element of document.querySelectorAll("form[data-kind]")) {
    for (const one of boxes(element.getAttribute("id"))) if (one.checked) of(element.getAttribute("id")).add(one.value); // after "back"
  }
  addEventListener("pageshow", () => {
    for (const one of document.querySelectorAll('input[name="id"][form]')) if (one.checked) keep(one, true);
    restore();
  });
  document.addEventListener("htmx:after:swap", restore);
  restore();
})();

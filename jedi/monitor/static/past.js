// The slider over a task's events: it names the event that it stands at, and leads to its time.
"use strict";
document.addEventListener("input", ({ target }) => {
  if (target.id !== "event") return;
  const option = target.list.options[Number(target.value)];
  document.getElementById("event-said").textContent = `${Number(target.value) + 1}: ${option.label}, ${option.dataset.at}`;
});
document.addEventListener("change", ({ target }) => {
  if (target.id !== "event") return;
  const found = new URLSearchParams({ at: target.list.options[Number(target.value)].dataset.at });
  if (target.dataset.against) found.set("against", target.dataset.against);
  location.assign(`${target.dataset.address}?${found}`);
});

// The page of a log: while the job runs and the tab is in sight, it is read again, and scrolls along
// unless the reader has scrolled away from the end.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const main = document.getElementById("live");
  const NEAR_END = 40; // pixels
  let following = false;
  let timer = null;

  const button = () => document.getElementById("follow");
  const isLive = () => document.getElementById("log-state").dataset.live === "yes";
  const atEnd = (one) => one.scrollHeight - one.scrollTop - one.clientHeight < NEAR_END;

  function toEnd() {
    for (const one of main.querySelectorAll("pre.log")) one.scrollTop = one.scrollHeight;
  }
  function show() {
    const one = button();
    if (!one) return;
    one.hidden = !isLive();
    one.setAttribute("aria-pressed", String(following));
    one.textContent = following ? "Following" : "Follow";
  }
  async function read() {
    clearTimeout(timer);
    if (!following || document.hidden || !isLive()) return;
    const kept = [...main.querySelectorAll("pre.log")].filter((one) => !atEnd(one)).map((one) => one.id);
    try {
      await htmx.ajax("GET", location.href, { target: "#live", swap: "innerMorph" });
    } catch { /* the service is away for a moment */ }
    show();
    for (const one of main.querySelectorAll("pre.log")) {
      if (!kept.includes(one.id)) one.scrollTop = one.scrollHeight;
    }
    timer = setTimeout(read, Number(button().dataset.pollMs));
  }
  main.addEventListener("click", ({ target }) => {
    if (!(target instanceof Element) || target.id !== "follow") return;
    following = !following;
    show();
    if (following) read();
  });
  document.addEventListener("visibilitychange", read);
  following = Boolean(isLive());
  show();
  toEnd();
  read();
});

// Before the first paint: the colours that this browser's user chose, else those of the system.
"use strict";
try {
  const chosen = localStorage.getItem("jedi-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* no storage: the system's colours */ }

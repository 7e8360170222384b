"use strict";
for (const box of document.querySelectorAll("input[data-table]")) {
  const rows = [...document.getElementById(box.dataset.table).tBodies[0].rows];
  const words = rows.map((row) => row.textContent.toLowerCase());
  box.parentElement.hidden = false;
  box.addEventListener("input", () => {
    const wanted = box.value.toLowerCase().split(/\s+/);
    rows.forEach((row, i) => { row.hidden = !wanted.every((word) => words[i].includes(word)); });
  });
}

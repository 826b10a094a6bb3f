"use strict";
// A head sorts its table: numbers by their value, first downwards; words by the alphabet.
const keyOf = (row, column) => {
  const cell = row.cells[column];
  const value = cell.querySelector("data")?.value ?? cell.textContent.trim();
  return value === "" || isNaN(value) ? value : Number(value);
};
const compare = (a, b) =>
  typeof a === typeof b ? (a > b) - (a < b) : typeof a === "number" ? -1 : 1;
for (const table of document.querySelectorAll(".sortable table")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.ariaSort === "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.ariaSort = down ? "descending" : "ascending";
      const rows = [...body.rows].map((row) => [keyOf(row, column), row]);
      rows.sort(([a], [b]) => (down ? compare(b, a) : compare(a, b)));
      body.append(...rows.map(([, row]) => row));
    });
  });
}

// The value of the mark nearest to the pointer.
const box = document.body.appendChild(document.createElement("output"));
box.className = "told";
box.hidden = true;
for (const drawing of document.querySelectorAll(".card svg")) {
  const marks = [...drawing.querySelectorAll("use > title")].map((title) => {
    const mark = title.parentNode;
    title.remove();
    return { mark, words: title.textContent };
  });
  const tell = ({ clientX, clientY }) => {
    let nearest = 24;
    box.hidden = true;
    for (const { mark, words } of marks) {
      const { left, right, top, bottom } = mark.getBoundingClientRect();
      const [x, y] = [(left + right) / 2, (top + bottom) / 2];
      const away = Math.hypot(clientX - x, clientY - y);
      if (away >= nearest) continue;
      nearest = away;
      box.textContent = words;
      box.hidden = false;
      const room = document.documentElement.clientWidth - box.offsetWidth - 8;
      box.style.left = `${Math.max(8, Math.min(x + 10, room))}px`;
      box.style.top = `${Math.max(8, y - box.offsetHeight - 10)}px`;
    }
  };
  drawing.addEventListener("pointermove", tell);
  drawing.addEventListener("pointerdown", tell);
  drawing.addEventListener("pointerleave", () => (box.hidden = true));
}

// Where a table is wider than its place, a line above it says so.
const watch = new ResizeObserver((found) => {
  for (const { target } of found)
    target.classList.toggle("cut", target.scrollWidth > target.clientWidth + 1);
});
document.querySelectorAll(".scroll").forEach((one) => watch.observe(one));

// A link to what is folded opens it.
const open = () => {
  const found = location.hash && document.getElementById(location.hash.slice(1));
  if (!found) return;
  const inside = found.matches("section") && found.querySelector(":scope > details");
  for (let one = inside || found; one; one = one.parentElement)
    if (one.matches("details")) one.open = true;
  found.scrollIntoView();
};
addEventListener("hashchange", open);
open();

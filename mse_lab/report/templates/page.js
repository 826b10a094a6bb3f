"use strict";
// A click on a head sorts its table: numbers by value, words by the alphabet.
const keyOf = (row, column) => {
  const text = row.cells[column].textContent.trim();
  const value = parseFloat(text.replace(/,/g, ""));
  return isNaN(value) ? text : value;
};
const compare = (a, b) =>
  typeof a === typeof b ? (a > b) - (a < b) : typeof a === "number" ? -1 : 1;
for (const table of document.querySelectorAll("table:not(.facts)")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) =>
    head.addEventListener("click", () => {
      const down = head.ariaSort === "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.ariaSort = down ? "descending" : "ascending";
      const rows = [...body.rows].map((row) => [keyOf(row, column), row]);
      rows.sort(([a], [b]) => (down ? compare(b, a) : compare(a, b)));
      body.append(...rows.map(([, row]) => row));
    }),
  );
}

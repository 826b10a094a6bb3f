"""Style sheet of the page: one column, system fonts, one accent, light and dark."""

STYLE_SHEET = """\
:root {
  color-scheme: light dark;
  --ground: #ffffff; --text: #1b1d21; --soft: #5a6068; --rule: #dcdfe3;
  --panel: #f5f6f8; --accent: #0a5c9e; --good: #1c6b3c; --bad: #a3261b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #15171a; --text: #e4e6e9; --soft: #a0a7b0; --rule: #343940;
    --panel: #1e2125; --accent: #7fb8ec; --good: #7fcf9c; --bad: #f29a8e;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--ground); color: var(--text);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
    "Liberation Sans", Arial, sans-serif;
}
a { color: var(--accent); text-underline-offset: 0.15em; text-decoration-thickness: 1px; }
.page { max-width: 78rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
header { max-width: 46rem; }
h1 { font-size: clamp(1.6rem, 1.2rem + 2vw, 2.3rem); line-height: 1.2; margin: 0 0 0.4rem;
  letter-spacing: -0.015em; text-wrap: balance; }
h2 { font-size: 1.4rem; line-height: 1.3; margin: 0 0 0.6rem; letter-spacing: -0.01em; }
h3 { font-size: 1.05rem; margin: 2rem 0 0.4rem; }
h4 { font-size: 0.95rem; margin: 1.5rem 0 0.3rem; }
p, ul { max-width: 46rem; margin: 0 0 0.9rem; }
ul { padding-left: 1.2rem; }
li { margin-bottom: 0.3rem; }
section { margin-top: 3rem; padding-top: 1.6rem; border-top: 1px solid var(--rule); }
.lead, .note, .reason, figcaption, small { color: var(--soft); }
.note { font-size: 0.875rem; margin-top: 1.2rem; }
.headline { font-size: 1.1rem; }
.warning { border-left: 3px solid var(--bad); padding-left: 0.8rem; }
nav { font-size: 0.9rem; margin-top: 1.6rem; }
nav ol { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap;
  gap: 0.3rem 1.1rem; }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }

.scroll { overflow-x: auto; max-width: 100%; margin: 0.6rem 0 1.2rem; }
.scroll:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: separate; border-spacing: 0; font-size: 0.875rem; line-height: 1.4;
  font-variant-numeric: tabular-nums; }
th, td { padding: 0.4rem 0.8rem 0.4rem 0; text-align: right; vertical-align: top;
  white-space: nowrap; }
th:last-child, td:last-child { padding-right: 0; }
th:first-child { text-align: left; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom;
  white-space: normal; border-bottom: 1px solid var(--text); min-width: 4.2rem; }
tbody th { font-weight: 500; position: sticky; left: 0; background: var(--ground); }
tbody th, tbody td { border-bottom: 1px solid var(--rule); }
tbody tr:last-child > * { border-bottom: 0; }
td small, th small { display: block; font-size: 0.78rem; font-weight: 400; }
.law { display: block; margin-top: 0.25rem; font-size: 0.78rem; color: var(--soft); }
.words { white-space: normal; text-align: left; display: block; }
tbody th:has(.words) { white-space: normal; min-width: 8.5rem; }
td:has(.words) { text-align: left; white-space: normal; }
.mark { color: var(--accent); font-weight: 600; }
.facts table { width: 100%; }
.facts th, .facts td { text-align: left; white-space: normal; padding-right: 0.9rem; }
.facts tbody th { color: var(--soft); max-width: 15rem; min-width: 6.5rem; }
.facts td { overflow-wrap: break-word; }
.matrix th, .matrix td { text-align: left; }
.matrix tbody th { white-space: normal; min-width: 8rem; }
.matrix tbody a { color: inherit; text-decoration-color: var(--rule); }
.verdict { white-space: nowrap; font-weight: 600; }
.holds { color: var(--good); }
.fails { color: var(--bad); }
.undecided, .premise-fails { color: var(--soft); }

.row { display: grid; gap: 1.2rem 1.6rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); }
.row > * { min-width: 0; }
.row h4:first-child { margin-top: 0.6rem; }
figure { margin: 0.6rem 0 0; max-width: 34rem; }
.card { background: #fff; color: #000; padding: 0.7rem; border-radius: 6px;
  border: 1px solid var(--rule); }
.card svg { display: block; width: 100%; height: auto; margin: 0 auto; }
.card text, .card tspan { font-family: inherit !important; }
figcaption { font-size: 0.85rem; margin-top: 0.4rem; line-height: 1.45; max-width: 40rem; }

.says { font-style: italic; }
.across { font-size: 0.875rem; }
.readings { display: grid; gap: 0.8rem 1.6rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr)); }
.reading { min-width: 0; border-left: 2px solid var(--rule); padding-left: 0.8rem;
  font-size: 0.9rem; overflow-wrap: break-word; }
.reading p { margin-bottom: 0.3rem; }
details { margin: 0.7rem 0; }
summary { cursor: pointer; color: var(--accent); font-size: 0.9rem; }
summary { margin-bottom: 0.5rem; }
details th:last-child { text-align: left; }
details .words { min-width: 15rem; }
code { display: inline-block; font: 0.85em ui-monospace, SFMono-Regular, Menlo, Consolas,
  "Liberation Mono", monospace; background: var(--panel); padding: 0.1em 0.35em;
  border-radius: 3px; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; margin: 0;
  max-width: 46rem; font-size: 0.95rem; }
dt { font-style: italic; }
dd { margin: 0; }

@media (min-width: 72rem) {
  .page { display: grid; grid-template-columns: 9.5rem minmax(0, 1fr);
    column-gap: 2.5rem; }
  header { grid-column: 2; }
  nav { grid-column: 1; grid-row: 1 / span 2; position: sticky; top: 2rem;
    align-self: start; margin-top: 0.5rem; }
  nav ol { flex-direction: column; }
  main { grid-column: 2; }
}
@media (max-width: 30rem) {
  .page { padding: 1.2rem 1rem 3rem; }
  .card { padding: 0.4rem; }
  table { font-size: 0.82rem; }
  th, td { padding-right: 0.55rem; }
  thead th { min-width: 3.4rem; }
  .matrix tbody th { min-width: 6.5rem; }
  .facts tr { display: grid;
    grid-template-columns: repeat(var(--runs), minmax(6rem, 1fr)); }
  .facts tbody th { grid-column: 1 / -1; max-width: none; padding: 0.5rem 0 0; border: 0; }
  .facts thead th { min-width: 0; }
  .facts thead th:first-child { display: none; }
  .facts td { padding-top: 0; min-width: 0; }
  .facts td[colspan] { grid-column: 1 / -1; }
}
@media print {
  :root { --ground: #fff; --text: #000; --soft: #444; --rule: #bbb; --accent: #000;
    --good: #000; --bad: #000; --panel: #fff; }
  body { font-size: 10pt; }
  nav { display: none; }
  .page { display: block; max-width: none; padding: 0; }
  .scroll { overflow: visible; }
  figure, tr, .reading { break-inside: avoid; }
  h2, h3, h4 { break-after: avoid; }
  details::details-content { content-visibility: visible; height: auto; }
}
"""

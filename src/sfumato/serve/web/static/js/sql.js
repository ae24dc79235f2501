// The third view: SQL with completion. Whatever is typed goes to the server's own parser and nowhere else.
import { ask, csv, latest } from "./api.js";
import { showCopies } from "./copies.js";
import { save } from "./saving.js";
import { manner, remember, state } from "./state.js";
import { answerTable, showNotes } from "./tables.js";
import { STOPPED, waiting } from "./waiting.js";
import { t } from "./tongue.js";
import { $, digits, make, short } from "./words.js";

const WORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "AND", "OR", "NOT", "BETWEEN", "IN", "IS NULL", "AS", "DESC",
  "COUNT(*)", "SUM(", "AVG(", "MEDIAN(", "QUANTILE(", "STDDEV(", "FILTER (WHERE ", "OVER ()", "CASE WHEN ", "FLOOR(", "WITH", "UNION ALL", "DESCRIBE"];
const newest = latest();
let open = [];
let active = -1;

export function setUp() {
  const box = $("sql");
  box.addEventListener("input", suggest);
  box.addEventListener("keydown", keyed);
  box.addEventListener("blur", () => setTimeout(close, 120));
  $("ask").addEventListener("submit", (event) => { event.preventDefault(); refresh(); });
  $("sql-csv").addEventListener("click", async () => {
    try { save(await csv(state.release, question()), `${state.release}.csv`); } catch (error) { refuse(error.message); }
  });
}

export function begun(kept = {}) {
  $("sql").value = typeof kept.sql === "string" && kept.sql ? kept.sql : state.about.examples[0] ?? `SELECT COUNT(*) AS n FROM ${state.about.dataset}`;
  $("sql-answer").hidden = true;
  $("examples").replaceChildren(...state.about.examples.map((example) => {
    const button = make("button", { type: "button", text: example });
    button.addEventListener("click", () => { put(example); });
    return button;
  }));
}

/** The view was opened: it begins with an answer, not with an empty page. */
export function opened() { if ($("sql-answer").hidden) refresh(); }

export function put(sql) {
  $("sql").value = sql;
  refresh();
}

const question = () => ({
  sql: $("sql").value.trim() || " ", ...manner(), ...($("possible").checked ? { possible: true } : {}), ...($("simultaneous").checked ? { simultaneous: true } : {}),
});

export async function refresh() {
  state.sql = $("sql").value;
  remember();
  const done = waiting($("sql-state"), $("sql-stop"), newest);
  try {
    const { found, current, stopped } = await newest((signal) => ask(state.release, "query", question(), signal));
    if (stopped) $("sql-state").textContent = STOPPED;
    if (!current) return;
    $("sql-state").textContent = "";
    $("sql-refused").hidden = true;
    $("sql-answer").hidden = false;
    const many = found.rows.length;
    $("sql-said").textContent = `${many === 1 ? t("1 row") : t("{0} rows", digits(many))}${many > 2000 ? t(", the first 2,000 shown; CSV has all") : ""}.`;
    $("sql-table").replaceChildren(answerTable(found));
    showNotes($("sql-notes"), found);
    showCopies($("sql-copies"), state.about, question());
  } catch (error) { refuse(error.message); } finally { done(); }
}

function refuse(text) {
  $("sql-state").textContent = "";
  $("sql-answer").hidden = false;
  $("sql-refused").hidden = false;
  $("sql-refused").textContent = text;
  $("sql-said").textContent = "";
  $("sql-table").replaceChildren();
  $("sql-notes").replaceChildren();
}

/** What may stand where the cursor is: labels inside quotes, else words and columns that begin so. */
function candidates() {
  const box = $("sql");
  const before = box.value.slice(0, box.selectionStart);
  const columns = state.about.columns;
  if ((before.match(/'/g)?.length ?? 0) % 2) {
    const begun = before.slice(before.lastIndexOf("'") + 1);
    const clause = before.slice(0, before.lastIndexOf("'"));
    const near = columns.filter((one) => one.labels && clause.includes(one.sql)).sort((one, other) => clause.lastIndexOf(other.sql) - clause.lastIndexOf(one.sql))[0];
    const labels = (near ? [near] : columns.filter((one) => one.labels)).flatMap((one) => one.labels.map((label) => [label, one.column]));
    return labels.filter(([label]) => typeof label === "string" && label.toLowerCase().startsWith(begun.toLowerCase()) && label !== begun)
      .map(([label, of]) => ({ text: `${label.replaceAll("'", "''")}'`, shown: label, kind: short(of, 20), length: begun.length }));
  }
  const begun = before.match(/[\p{L}_"][\p{L}\p{N}_"]*$/u)?.[0] ?? "";
  if (!begun) return [];
  const fits = (word) => word.toLowerCase().startsWith(begun.toLowerCase()) && word.toLowerCase() !== begun.toLowerCase();
  return [
    ...columns.filter((one) => fits(one.sql) || fits(one.column)).map((one) => ({ text: one.sql, shown: one.sql, kind: one.role, length: begun.length })),
    ...[state.about.dataset].filter(fits).map((word) => ({ text: word, shown: word, kind: "table", length: begun.length })),
    ...WORDS.filter(fits).map((word) => ({ text: word, shown: word, kind: "SQL", length: begun.length })),
  ];
}

function suggest() {
  open = candidates().slice(0, 40);
  active = open.length ? 0 : -1;
  render();
}

function render() {
  const list = $("suggestions");
  list.hidden = !open.length;
  list.replaceChildren(...open.map((one, place) => {
    const item = make("li", { role: "option", id: `suggestion-${place}`, "aria-selected": String(place === active) }, make("bdi", { text: short(one.shown, 60) }), make("small", { text: one.kind }));
    item.addEventListener("mousedown", (event) => { event.preventDefault(); take(place); });
    return item;
  }));
  if (active >= 0) {
    $("sql").setAttribute("aria-activedescendant", `suggestion-${active}`);
    list.children[active]?.scrollIntoView({ block: "nearest" });
  } else $("sql").removeAttribute("aria-activedescendant");
}

function close() { open = []; active = -1; render(); }

function take(place) {
  const box = $("sql");
  const { text, length } = open[place];
  box.setRangeText(text, box.selectionStart - length, box.selectionStart, "end");
  close();
  box.focus();
}

function keyed(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); close(); refresh(); return; }
  if (event.key === " " && event.ctrlKey) { event.preventDefault(); suggest(); return; }
  if (!open.length) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) { event.preventDefault(); active = (active + step + open.length) % open.length; render(); }
  else if (event.key === "Tab" && !event.shiftKey) { event.preventDefault(); take(active); }
  else if (event.key === "Escape") { event.preventDefault(); close(); }
}

// The second view: a sentence to fill in, and a sentence back.
import { ask, latest } from "./api.js";
import { PALETTE, twoGroups } from "./charts.js";
import { showCopies } from "./copies.js";
import { asked, inWords } from "./filters.js";
import { manner, state } from "./state.js";
import { STOPPED, waiting } from "./waiting.js";
import { t } from "./tongue.js";
import { $, make, short, shown, titled } from "./words.js";

const newest = latest();
const chosen = { amount: "count", of: null, by: null, first: 0, second: 1, having: null, has: 0 };
let last = null;

const listed = () => state.about.columns.filter((one) => one.role === "attribute" && one.labels && one.labels.length > 1);
const column = (name) => state.about.columns.find((one) => one.column === name);

export function begun() {
  const fields = listed();
  const by = fields.find((one) => !one.ordered) ?? fields[0];
  const other = fields.find((one) => one !== by);
  Object.assign(chosen, { amount: "count", of: null, by: by?.column ?? null, first: 0, second: 1, having: other?.column ?? null, has: 0 });
  if (state.about.summable.sum.length) Object.assign(chosen, { amount: "average", of: state.about.summable.sum[0] });
  build();
}

function pick(label, options, value, changed) {
  const field = make("select", { "aria-label": label }, ...options.map(([key, text]) => make("option", { value: String(key), text })));
  field.value = String(value);
  field.addEventListener("change", () => { changed(field.value); build(field.getAttribute("aria-label")); refresh(); });
  return field;
}

function build(focus) {
  const form = $("compare");
  if (!chosen.by) { form.textContent = t("This release has no attribute with two values to compare."); return; }
  const { sum, median } = state.about.summable;
  const called = (name) => titled(state.about, name);
  const amounts = [["count", null, t("the number of rows")], ...(chosen.having ? [["share", null, t("the share of rows")]] : []),
    ...sum.flatMap((name) => [["average", name, t("the average {0}", short(called(name), 30))], ["sum", name, t("the sum of {0}", short(called(name), 30))]]), ...median.map((name) => ["median", name, t("the median {0}", short(called(name), 30))])];
  const labels = (name) => column(name).labels.map((label, place) => [place, short(label, 40)]);
  const parts = [t("Compare "), pick(t("What to compare"), amounts.map(([a, o, text]) => [JSON.stringify([a, o]), text]), JSON.stringify([chosen.amount, chosen.of]), (value) => { [chosen.amount, chosen.of] = JSON.parse(value); })];
  if (chosen.amount === "share") {
    const others = listed().filter((one) => one.column !== chosen.by);
    parts.push(t(" with "), pick(t("Share of"), others.map((one) => [one.column, called(one.column)]), chosen.having, (value) => { chosen.having = value; chosen.has = 0; }),
      " ", pick(t("Value"), labels(chosen.having), chosen.has, (value) => { chosen.has = +value; }));
  }
  parts.push(t(" between "), pick(t("Attribute"), listed().map((one) => [one.column, called(one.column)]), chosen.by, (value) => {
    Object.assign(chosen, { by: value, first: 0, second: 1 });
    if (chosen.having === value) chosen.having = listed().find((one) => one.column !== value)?.column ?? null;
  }), " ", pick(t("First group"), labels(chosen.by), chosen.first, (value) => { chosen.first = +value; }), t(" and "), pick(t("Second group"), labels(chosen.by), chosen.second, (value) => { chosen.second = +value; }), ".");
  const only = shared();
  if (only.length) parts.push(make("span", { class: "hint", text: t(" Among rows with {0}, as chosen under Explore.", only.map((one) => inWords(one, state.about)).join(", ")) }));
  form.replaceChildren(...parts);
  if (focus) [...form.querySelectorAll("select")].find((one) => one.getAttribute("aria-label") === focus)?.focus();
}

const shared = () => asked(state.filters, state.about).filter((one) => one.attribute !== chosen.by);
const group = (place) => [{ attribute: chosen.by, labels: [column(chosen.by).labels[place]] }, ...shared()];

function question() {
  const having = chosen.amount === "share" ? { having: [{ attribute: chosen.having, labels: [column(chosen.having).labels[chosen.has]] }] } : {};
  return { first: group(chosen.first), second: group(chosen.second), amount: chosen.amount, ...(chosen.of ? { of: chosen.of } : {}), ...having, ...manner() };
}

export async function refresh() {
  if (!chosen.by) return;
  build();
  const done = waiting($("statement"), $("compare-stop"), newest);
  try {
    const { found, current, stopped } = await newest((signal) => ask(state.release, "compare", question(), signal));
    if (stopped) $("statement").textContent = STOPPED;
    if (!current) return;
    last = found;
    $("compare-refused").hidden = true;
    $("statement").lang = "en";
    $("statement").textContent = found.statement.replace("the first group", name(chosen.first)).replace("that of the second", `that of ${name(chosen.second)}`);
    redraw();
    showCopies($("compare-copies"), state.about, { sql: found.sql, ...manner() });
  } catch (error) {
    last = null;
    $("statement").textContent = "";
    $("compare-chart").replaceChildren();
    $("compare-refused").textContent = error.message;
    $("compare-refused").hidden = false;
  } finally { done(); }
}

const name = (place) => `“${short(column(chosen.by).labels[place], 40)}”`;

export function redraw() {
  if (!last || $("view-compare").hidden) return;
  const row = last.rows[0];
  const part = (prefix, label, place, colour) => ({ name: label, place, colour, value: row[prefix], low: row[`${prefix}_low`], high: row[`${prefix}_high`] });
  const labels = column(chosen.by).labels;
  const width = Math.max(240, Math.floor($("compare-chart").clientWidth));
  const both = [part("first_group", shown(labels[chosen.first]), 0, PALETTE[0]), part("second_group", shown(labels[chosen.second]), 1, PALETTE[1])];
  const apart = [part("difference", t("difference"), 0, PALETTE[4])];
  const options = { width, form: chosen.amount === "share" ? "percent" : "" };
  $("compare-chart").replaceChildren(...[[both, t("The two groups")], [apart, t("The difference")]].filter(([rows]) => rows.every((one) => one.value !== null && one.low !== null && one.high !== null)).map(([rows, label]) => {
    const svg = twoGroups(rows, { ...options, label: `${label}. ${$("statement").textContent}` });
    svg.setAttribute("role", "img");
    return svg;
  }));
}

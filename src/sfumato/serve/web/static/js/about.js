// The fourth view: what was promised, to whom, what is in the release and what is not.
import { state } from "./state.js";
import { $, digits, make, shown } from "./words.js";

const list = (texts) => make("ul", {}, ...texts.map((text) => make("li", { text: shown(text) })));
const card = (title, ...children) => make("section", { class: "card" }, make("h2", { text: title }), ...children);
const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
/** Three digits, and powers of ten as people write them. */
function factor(value) {
  if (!Number.isFinite(value)) return "any number of";
  if (value < 1000) return value.toPrecision(3);
  if (value < 1e6) return digits(+value.toPrecision(3));
  const [number, power] = value.toExponential(1).split("e+");
  return `${number} · 10${[...power].map((one) => POWERS[+one]).join("")}`;
}

/** Whose presence is hidden, in a word, and over which periods of a series: "person in a month". */
function oneUnit(unit) {
  const row = unit.startsWith("any one row");
  return (row ? "row" : "person") + (row ? unit.slice("any one row".length) : unit.replace(/^.*rows? each\)/, ""));
}

export function begun() {
  const about = state.about;
  const { guarantee } = about;
  $("promise").replaceChildren(make("b", { text: about.promise }), `: one ${oneUnit(guarantee.unit)} more or less changes the odds of anything you see here by at most ${factor(about.groups[0].factor)} times.`);
  const odds = make("div", { class: "odds" }, ...about.groups.map((one) => make("div", {}, make("b", { text: `${factor(one.factor)} ×` }),
    make("span", { text: `${one.together === 1 ? "for one alone" : `for ${one.together} together`}, epsilon ${+one.epsilon.toPrecision(4)}${one.delta ? `, delta ${one.delta.toPrecision(2)}` : ""}` }))));
  const words = make("p", { class: "hint", text: `In symbols: ${guarantee.definition}, ${about.promise}, for ${guarantee.unit}; ${guarantee.neighbours}.` });
  const columns = make("table", {}, make("thead", {}, make("tr", {}, ...["column", "role", "type", "values"].map((text) => make("th", { scope: "col", text })))),
    make("tbody", {}, ...about.columns.map((one) => make("tr", {}, make("th", { scope: "row" }, make("bdi", { text: shown(one.column) })), ...[one.role, one.type, one.values].map((text) => make("td", {}, make("bdi", { text: shown(text) })))))));
  const errors = make("ul", {}, ...about.typical_errors.map((one) => make("li", { text: `${one.counts_of}: ${one.half_width === null ? "unknown" : `± ${one.half_width.toLocaleString("en-GB", { maximumSignificantDigits: 3 })} rows`}` })));
  $("view-about").replaceChildren(
    card("What is promised", make("p", { class: "lead", text: guarantee.statement }), odds, words),
    card("What is in it", make("p", { text: `${about.dataset}: ${about.extent}, made by the mechanism ${about.mechanism}.` }), make("div", { class: "scroll" }, columns)),
    card("How good it is", make("p", { text: `${about.errors}.` }), ...(about.typical_errors.length ? [make("p", { class: "hint", text: `Typical 95 % error bars of counts of` }), errors] : [])),
    ...(about.counted.length ? [card("What was left out by rule", list(about.counted))] : []),
    card("What it cannot answer", list(about.cannot)),
    ...(about.findings ? [card("What was found", list(about.findings))] : []),
  );
}

// The fourth view: what was promised, to whom, what is in the release and what is not.
import { state } from "./state.js";
import { t } from "./tongue.js";
import { $, figures, make, shown, titled } from "./words.js";

const list = (texts) => make("ul", { lang: "en" }, ...texts.map((text) => make("li", { text: shown(text) })));
const card = (title, ...children) => make("section", { class: "card" }, make("h2", { text: title }), ...children);
const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
/** Three digits, and powers of ten as people write them. */
function factor(value) {
  if (!Number.isFinite(value)) return t("any number of");
  if (value < 1e6) return figures(value, 3);
  const [number, power] = value.toExponential(1).split("e+");
  return `${figures(+number, 2)} · 10${[...power].map((one) => POWERS[+one]).join("")}`;
}

/** Whose presence is hidden, in a word, and over which periods of a series: "person in a month". */
function oneUnit(unit) {
  const row = unit.startsWith("any one row");
  return (row ? t("row") : t("person")) + (row ? unit.slice("any one row".length) : unit.replace(/^.*rows? each\)/, ""));
}

export function begun() {
  const about = state.about;
  const { guarantee } = about;
  $("promise").replaceChildren(make("b", { text: about.promise }), t(": one {0} more or less changes the odds of anything you see here by at most {1} times.", oneUnit(guarantee.unit), factor(about.groups[0].factor)));
  const odds = make("div", { class: "odds" }, ...about.groups.map((one) => make("div", {}, make("b", { text: `${factor(one.factor)} ×` }),
    make("span", { text: `${one.together === 1 ? t("for one alone") : t("for {0} together", one.together)}, epsilon ${figures(one.epsilon, 4)}${one.delta ? `, delta ${one.delta.toPrecision(2)}` : ""}` }))));
  const words = make("p", { class: "hint", lang: "en", text: `In symbols: ${guarantee.definition}, ${about.promise}, for ${guarantee.unit}; ${guarantee.neighbours}.` });
  const columns = make("table", {}, make("thead", {}, make("tr", {}, ...["column", "name", "role", "type", "values"].map(t).map((text) => make("th", { scope: "col", text })))),
    make("tbody", {}, ...about.columns.map((one) => make("tr", {}, make("th", { scope: "row" }, make("bdi", { text: shown(one.column) })), ...[titled(about, one.column), one.role, one.type, one.description ? `${one.values}. ${one.description}` : one.values].map((text) => make("td", {}, make("bdi", { text: shown(text) })))))));
  const errors = make("ul", {}, ...about.typical_errors.map((one) => make("li", { text: `${t(one.counts_of)}: ${one.half_width === null ? t("unknown") : t("± {0} rows", figures(one.half_width, 3))}` })));
  $("view-about").replaceChildren(
    card(t("What is promised"), make("p", { class: "lead", lang: "en", text: guarantee.statement }), odds, words),
    card(t("What is in it"), make("p", { lang: "en", text: `${about.dataset}: ${about.extent}, made by the mechanism ${about.mechanism}.` }), make("div", { class: "scroll" }, columns)),
    card(t("How good it is"), make("p", { lang: "en", text: `${about.errors}.` }), ...(about.typical_errors.length ? [make("p", { class: "hint", text: t("Typical 95 % error bars of counts of") }), errors] : [])),
    ...(about.counted.length ? [card(t("What was left out by rule"), list(about.counted))] : []),
    card(t("What it cannot answer"), list(about.cannot)),
    ...(about.findings ? [card(t("What was found"), list(about.findings))] : []),
  );
}

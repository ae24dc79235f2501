// Answers as tables, for those who read or hear them.
import { t } from "./tongue.js";
import { interval, make, number, percentOf, shown } from "./words.js";

const cell = (text) => make("bdi", { text });

/** The note that changes most what one may conclude; all others, and what is counted, are folded away. */
export function showNotes(box, answer) {
  const [first, ...others] = answer.decisive;
  const rest = [...others, ...answer.notes.filter((note) => !answer.decisive.includes(note)), answer.counted && `Counted: ${answer.counted}.`].filter(Boolean);
  box.replaceChildren(
    ...(first ? [make("p", { lang: "en", text: `${first[0].toUpperCase()}${first.slice(1)}.` })] : []),
    ...(rest.length ? [make("details", {}, make("summary", { text: first ? t("More notes") : t("Notes") }), make("ul", { lang: "en" }, ...rest.map((text) => make("li", { text }))))] : []),
  );
}

/** A chart's numbers: the chart in another form. */
export function chartTable(data, form, title, called) {
  const head = [...data.by.map((name) => make("th", { scope: "col" }, cell(called(name)))),
    make("th", { scope: "col", class: "number", text: t(data.amount) }), make("th", { scope: "col", class: "number", text: t("± std. error") }),
    make("th", { scope: "col", class: "number", text: t("{0} interval", percentOf(data.confidence)) })];
  const body = data.keys.map((key, place) => {
    const [value, error, low, high] = [data.values[place], data.stderr[place], data.low[place], data.high[place]];
    return make("tr", {}, ...key.map((label) => make("th", { scope: "row" }, cell(shown(label)))),
      make("td", { class: "number", text: number(value, error, form) }), make("td", { class: "number", text: number(error, error, form) }),
      make("td", { class: "number", text: interval(low, high, error, form) }));
  });
  return make("table", {}, make("caption", { text: title }), make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

/** The rows of any statement: numbers with their error folded into one interval each. */
export function answerTable(answer) {
  const estimates = answer.columns.filter((name) => answer.columns.includes(`${name}_stderr`) && answer.columns.includes(`${name}_low`));
  const parts = new Set(estimates.flatMap((name) => ["stderr", "low", "high", "guaranteed_low", "guaranteed_high"].map((end) => `${name}_${end}`)));
  const columns = answer.columns.filter((name) => !parts.has(name));
  const head = columns.flatMap((name) => (estimates.includes(name)
    ? [make("th", { scope: "col", class: "number" }, cell(shown(name))), make("th", { scope: "col", class: "number", text: t("± std. error") }), make("th", { scope: "col", class: "number", text: t("{0} interval", percentOf(answer.confidence)) })]
    : [make("th", { scope: "col" }, cell(shown(name)))]));
  const body = answer.rows.slice(0, 2000).map((row) => make("tr", {}, ...columns.flatMap((name) => {
    if (!estimates.includes(name)) return [make("td", {}, cell(row[name] === null ? "NULL" : shown(row[name])))];
    const [value, error, low, high] = ["", "_stderr", "_low", "_high"].map((end) => row[name + end]);
    return [number(value, error), number(error, error), interval(low, high, error)].map((text) => make("td", { class: "number", text }));
  })));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

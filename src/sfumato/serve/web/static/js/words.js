// Numbers and labels as people read them. Labels are whoever's: they only ever become text.
import { LOCALE, t } from "./tongue.js";

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0]/gu;

/** A label with what cannot be seen, or turns text around, spelled out. */
export function shown(label) {
  if (label === null || label === undefined) return t("no value");
  return String(label).replace(HIDDEN, (letter) => `\\u${letter.codePointAt(0).toString(16).padStart(4, "0")}`);
}

export function short(label, most = 24) {
  const text = [...shown(label)];
  return text.length > most ? `${text.slice(0, most - 1).join("")}…` : text.join("");
}

/** What readers call a column: the schema's label, and the unit of its numbers. about: of the release. */
export function titled(about, name) {
  const column = about?.columns.find((one) => one.column === name);
  return shown(column?.label ?? name) + (column?.unit ? ` (${shown(column.unit)})` : "");
}

const formats = new Map(); // made once: a browser takes longer to make one than to draw a bar

/** A number with so many digits behind the point, thousands apart. */
export function digits(value, places = 0) {
  if (!formats.has(places)) formats.set(places, new Intl.NumberFormat(LOCALE, { minimumFractionDigits: places, maximumFractionDigits: places }));
  return formats.get(places).format(value);
}

const decimals = (error) => (error > 0 && Number.isFinite(error) ? Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(error)))) : 0);

/** A number rounded to where its error begins. form: "percent" for shares, "whole" for counts. */
export function number(value, error, form = "") {
  if (value === null || value === undefined) return t("unknown");
  if (typeof value === "string") return value;
  const percent = form === "percent";
  const scale = percent ? 100 : 1;
  const text = digits(value * scale, form === "whole" && !(error < 1) ? 0 : decimals((error ?? 0) * scale));
  return (percent ? `${text} %` : text).replace(/^-/, "−").replace(/^−(0([.,]0+)?)( %)?$/, "$1$3");
}

export function interval(low, high, error, form = "") {
  if (low === null && high === null) return t("anything");
  const end = (value, name) => (value === null ? name : number(value, error, form));
  return t("{0} to {1}", end(low, t("unbounded")), end(high, t("unbounded")));
}

/** A number with so many digits that count. */
export const figures = (value, most) => new Intl.NumberFormat(LOCALE, { maximumSignificantDigits: most }).format(value);

export const percentOf = (confidence) => `${figures(+(confidence * 100).toFixed(3), 12)} %`;

/** An element with text and children; nothing is ever read as HTML. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "text") element.textContent = value;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export const $ = (id) => document.getElementById(id);

export function say(text) {
  const toast = $("said");
  toast.textContent = text;
  toast.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => toast.classList.remove("shown"), 2200);
}

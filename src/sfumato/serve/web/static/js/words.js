// Numbers and labels as people read them. Labels are whoever's: they only ever become text.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0]/gu;

/** A label with what cannot be seen, or turns text around, spelled out. */
export function shown(label) {
  if (label === null || label === undefined) return "no value";
  return String(label).replace(HIDDEN, (letter) => `\\u${letter.codePointAt(0).toString(16).padStart(4, "0")}`);
}

export function short(label, most = 24) {
  const text = [...shown(label)];
  return text.length > most ? `${text.slice(0, most - 1).join("")}…` : text.join("");
}

const formats = new Map(); // made once: a browser takes longer to make one than to draw a bar

/** A number with so many digits behind the point, thousands apart. */
export function digits(value, places = 0) {
  if (!formats.has(places)) formats.set(places, new Intl.NumberFormat("en-GB", { minimumFractionDigits: places, maximumFractionDigits: places }));
  return formats.get(places).format(value);
}

const decimals = (error) => (error > 0 && Number.isFinite(error) ? Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(error)))) : 0);

/** A number rounded to where its error begins. form: "percent" for shares, "whole" for counts. */
export function number(value, error, form = "") {
  if (value === null || value === undefined) return "unknown";
  if (typeof value === "string") return value;
  const percent = form === "percent";
  const scale = percent ? 100 : 1;
  const text = digits(value * scale, form === "whole" && !(error < 1) ? 0 : decimals((error ?? 0) * scale));
  return (percent ? `${text} %` : text).replace(/^-/, "−").replace(/^−(0(\.0+)?)( %)?$/, "$1$3");
}

export function interval(low, high, error, form = "") {
  if (low === null && high === null) return "anything";
  const end = (value, name) => (value === null ? name : number(value, error, form));
  return `${end(low, "unbounded")} to ${end(high, "unbounded")}`;
}

export const percentOf = (confidence) => `${+(confidence * 100).toFixed(3)} %`;

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

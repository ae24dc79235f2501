// The first view: a number by one or two attributes, as bars, lines, a heat map or a map.
/* global d3 */
import { ask, askAhead, atHand, csv, latest } from "./api.js";
import { SCALES, axisInWords, canLog, cutInWords, scaleOf } from "./axes.js";
import { PALETTE, bars, distinct, heat, lines, ramp, rowsOf, shades } from "./charts.js";
import { showCopies } from "./copies.js";
import { boundaries, fetchBoundaries, hasMap, leftOut, map } from "./maps.js";
import { asked, begin, fillAddFilter, inWords, showFilters } from "./filters.js";
import { alone, asPng, asSvg, save } from "./saving.js";
import { STOPS, manner, remember, state } from "./state.js";
import { chartTable, showNotes } from "./tables.js";
import { STOPPED, waiting } from "./waiting.js";
import { t } from "./tongue.js";
import { $, digits, figures, interval, make, number, percentOf, short, shown, titled } from "./words.js";

const newest = latest();
const column = (name) => state.about.columns.find((one) => one.column === name);
const keys = () => state.about.columns.filter((one) => one.role === "attribute");
const form = () => ({ share: "percent", count: "whole" })[state.amount] ?? "";
let last = null;
let room = 0; // how wide a chart may be
let openSql = () => {};

export function setUp(toSql) {
  openSql = toSql;
  $("amount").addEventListener("change", () => { [state.amount, state.of] = JSON.parse($("amount").value); refresh(); });
  for (const place of [0, 1]) {
    $(`by-${place + 1}`).addEventListener("change", () => {
      const chosen = [$("by-1").value, $("by-2").value].filter(Boolean);
      state.by = [...new Set(chosen)];
      state.shape = state.shape === "map" && hasMap(state.about, state.by) ? "map" : usual();
      fill();
      refresh();
    });
  }
  for (const radio of document.querySelectorAll("[name=shape]")) radio.addEventListener("change", () => { state.shape = radio.value; fill(); withAreas().then(redraw, (error) => refuse(error.message)); remember(); });
  for (const name of ["order", "scale"]) $(name).addEventListener("change", () => { state[name] = $(name).value; redraw(); remember(); });
  $("add-filter").addEventListener("change", () => {
    const found = column($("add-filter").value);
    if (found) changeFilters([...state.filters, begin(found)], true);
  });
  for (const button of document.querySelectorAll("[data-save]")) button.addEventListener("click", () => saveAs(button.dataset.save));
  for (const id of ["as-table", "elsewhere"]) $(id).addEventListener("toggle", unfold);
  $("to-sql").addEventListener("click", () => last && openSql(last.sql));
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  new ResizeObserver(([seen]) => { // tells the width without laying the page out once more
    if (!seen.contentRect.width || Math.abs(seen.contentRect.width - room) <= 4) return;
    room = seen.contentRect.width;
    redraw();
  }).observe($("chart"));
  window.addEventListener("theme", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

/** A release was chosen: what it can show to begin with. */
export function begun(kept = {}) {
  const names = keys().map((one) => one.column);
  const fitting = (name) => names.includes(name);
  const first = keys().find((one) => one.type === "date" && one.cells > 1) ?? keys().find((one) => one.cells > 1 && one.cells <= 200) ?? keys()[0];
  state.by = Array.isArray(kept.by) && kept.by.every(fitting) ? kept.by.slice(0, 2) : first ? [first.column] : [];
  [state.amount, state.of] = ["count", null];
  if (amounts().some(([value]) => value === JSON.stringify([kept.amount, kept.of ?? null]))) [state.amount, state.of] = [kept.amount, kept.of ?? null];
  state.filters = Array.isArray(kept.filters) ? kept.filters.filter((one) => one && fitting(one.attribute)) : [];
  state.shape = ["bars", "lines", "heat", "map"].includes(kept.shape) ? kept.shape : usual();
  state.order = ["highest", "lowest"].includes(kept.order) ? kept.order : "listed";
  state.scale = kept.scale in SCALES ? kept.scale : "auto";
  fill();
}

/** What readers call a column. */
const called = (name) => titled(state.about, name);

function amounts() {
  const { sum, median } = state.about.summable;
  const plain = [["count", null, t("Number of rows")], ["share", null, t("Share of rows")]];
  const of = [...sum.flatMap((name) => [["average", name, t("Average of {0}", called(name))], ["sum", name, t("Sum of {0}", called(name))]]), ...median.map((name) => ["median", name, t("Median of {0}", called(name))])];
  return [...plain, ...of].map(([amount, name, text]) => [JSON.stringify([amount, name]), text]);
}

function usual() {
  if (state.by.length === 2) return seriesFit() && column(state.by[0]).ordered ? "lines" : "heat";
  const only = column(state.by[0]);
  return only && (only.ordered ? only.cells > 40 || only.type === "date" : only.cells > 80) ? "lines" : "bars";
}

/** Values of the second attribute that filters leave, at most: each is a colour. */
const series = () => Math.min(column(state.by[1]).cells, ...asked(state.filters, state.about).filter((one) => one.attribute === state.by[1] && one.labels).map((one) => one.labels.length));
const seriesFit = () => state.by.length < 2 || series() <= PALETTE.length;

function fill() {
  const option = (value, text) => make("option", { value, text });
  $("amount").replaceChildren(...amounts().map(([value, text]) => option(value, text)));
  $("amount").value = JSON.stringify([state.amount, state.of]);
  $("by-1").replaceChildren(option("", t("nothing: one number")), ...keys().map((one) => option(one.column, called(one.column))));
  $("by-1").value = state.by[0] ?? "";
  $("by-2").replaceChildren(option("", t("nothing else")), ...keys().filter((one) => one.column !== state.by[0]).map((one) => option(one.column, called(one.column))));
  $("by-2").value = state.by[1] ?? "";
  $("by-2").disabled = !state.by.length;
  $("shape-map").hidden = !state.about.maps.length;
  if (state.shape === "map" && !hasMap(state.about, state.by)) state.shape = usual();
  for (const radio of document.querySelectorAll("[name=shape]")) {
    radio.disabled = !state.by.length || (radio.value === "heat" ? state.by.length < 2 : radio.value === "map" ? !hasMap(state.about, state.by) : !seriesFit());
    radio.checked = radio.value === state.shape;
  }
  $("order").value = state.order;
  fillAddFilter(state.about, state.filters);
  showFilters($("filters"), state.filters, state.about, changeFilters);
}

function changeFilters(filters, rebuild = false) {
  state.filters = filters;
  if (rebuild) fill();
  refresh();
}

export const question = () => ({
  by: state.by, amount: state.amount, ...(state.of ? { of: state.of } : {}), where: asked(state.filters, state.about), ...manner(),
});

export async function refresh() {
  if (!state.about?.answers_counts) return onlyItsOwn();
  remember();
  if (!atHand(state.release, "chart", question())) $("figure").classList.add("busy");
  const done = waiting($("summary"), $("stop"), newest);
  const started = performance.now();
  try {
    const { found, current, stopped } = await newest(async (signal) => {
      const [answer] = await Promise.all([ask(state.release, "chart", question(), signal), withAreas()]);
      return answer;
    });
    if (stopped) { $("summary").textContent = STOPPED; $("figure").classList.remove("busy"); }
    if (!current) return;
    last = found;
    $("figure").dataset.confidence = found.confidence;
    show();
    if (performance.now() - started < 1500) ahead();
  } catch (error) { refuse(error.message); } finally { done(); }
  $("figure").classList.remove("busy");
}

/** The boundaries of a map are here before it is drawn. */
async function withAreas() {
  if (state.shape === "map" && hasMap(state.about, state.by)) await fetchBoundaries(state.release, state.by[0]);
}

let round = 0;

/** The other stops of the slider are asked for before anybody moves it, the nearest first. */
async function ahead() {
  const mine = (round += 1);
  const here = question();
  const place = STOPS.indexOf(here.confidence);
  const stops = STOPS.filter((stop) => stop !== here.confidence).sort((one, other) => Math.abs(STOPS.indexOf(one) - place) - Math.abs(STOPS.indexOf(other) - place));
  await new Promise((drawn) => { requestAnimationFrame(() => setTimeout(drawn)); });
  for (const confidence of stops) {
    if (round !== mine || document.hidden) return;
    try { await askAhead(state.release, "chart", { ...here, confidence }); } catch { return; }
  }
}

function refuse(text) {
  last = null;
  $("legend").replaceChildren();
  $("notes").replaceChildren();
  $("refused").textContent = text;
  $("refused").hidden = false;
  $("chart").replaceChildren();
  $("key").replaceChildren();
  $("table").replaceChildren();
  $("title").textContent = title();
  $("summary").textContent = "";
}

function onlyItsOwn() {
  refuse(t("This release answers the questions that it was made for, and no counts by attribute. Ask it in SQL; examples are there."));
}

function title() {
  const of = called(state.of);
  const what = { count: t("Number of rows"), share: t("Share of rows"), sum: t("Sum of {0}", of), average: t("Average {0}", of), median: t("Median {0}", of) }[state.amount];
  const by = state.by.map(called).join(t(" and "));
  const only = asked(state.filters, state.about).map((one) => inWords(one, state.about)).join(", ");
  return `${what}${by ? t(" by {0}", by) : ""}${only ? `, ${only}` : ""}`;
}

/** The chart in two sentences, for everybody; screen readers hear it when it changes. */
function summary() {
  const rows = rowsOf(last).filter((row) => row.value !== null);
  if (!rows.length) return t("Nothing is known of this.");
  const name = (row) => row.key.map((label) => short(label, 40)).join(" · ");
  const full = (row) => `${number(row.value, row.error, form())} (${interval(row.low, row.high, row.error, form())})`;
  if (!last.by.length) return t("{0} sure: {1}.", percentOf(last.confidence), interval(rows[0].low, rows[0].high, rows[0].error, form()));
  const [most, least] = [d3.greatest(rows, (row) => row.value), d3.least(rows, (row) => row.value)];
  const clear = rows.filter((row) => row.low > 0 || row.high < 0).length;
  const counting = ["count", "share"].includes(last.amount);
  const rest = counting ? (clear === rows.length ? t("All {0} groups stand clear of the noise.", digits(rows.length)) : t("{0} of {1} groups stand clear of the noise.", digits(clear), digits(rows.length))) : `${last.lowest ? t("Lowest") : t("Among the lowest")}: ${name(least)}, ${full(least)}.`;
  return `${last.highest ? t("Highest") : t("Among the highest")}: ${name(most)}, ${full(most)}. ${rest}`;
}

function show() {
  last.said = summary();
  redraw();
  $("refused").hidden = true;
  $("title").textContent = title();
  $("summary").textContent = last.said;
  showNotes($("notes"), last);
  unfold();
}

/** What is folded away is made when it is opened: a slider must not wait for thousands of cells that nobody sees. */
function unfold() {
  if (!last) return;
  if ($("as-table").open) $("table").replaceChildren(chartTable(last, form(), title(), called));
  if ($("elsewhere").open) showCopies($("copies"), state.about, { sql: last.sql, ...manner() });
}

export function redraw() {
  if (!last) return;
  room ||= $("chart").clientWidth;
  const width = Math.max(240, Math.floor(room));
  const options = { width, form: form(), ordered: state.by.length > 0 && column(state.by[0]).ordered, order: state.order, scale: state.scale, called, label: `${title()}. ${last.said}` };
  if (!last.by.length) {
    $("chart").replaceChildren(make("p", { class: "one-number", text: number(last.values[0], last.stderr[0], form()) }));
    $("key").replaceChildren();
    $("legend").replaceChildren();
    return;
  }
  const shape = shapeOf();
  const svg = { bars, lines, heat, map }[shape](last, { ...options, areas: boundaries(state.release, last.by[0]) });
  svg.setAttribute("role", "img");
  $("chart").replaceChildren(svg);
  fillScales(shape);
  showKey(shape);
}

/** The kind of picture that the answer at hand can be, the chosen one if possible. */
function shapeOf() {
  if (last.by.length === 2) return seriesFit() && state.shape !== "map" ? state.shape : "heat";
  const areas = state.shape === "map" && boundaries(state.release, last.by[0]);
  return state.shape === "heat" || (state.shape === "map" && !areas) ? "bars" : state.shape;
}

/** Axes that this chart can have. */
function fillScales(shape) {
  const fitting = { auto: true, zero: true, fit: shape === "lines", log: canLog(rowsOf(last)) };
  $("scale").replaceChildren(...Object.entries(SCALES).filter(([name]) => fitting[name]).map(([value, text]) => make("option", { value, text })));
  $("scale").value = fitting[state.scale] ? state.scale : "auto";
  $("order").disabled = shape !== "bars";
}

/** Which colour is which, above the chart; what its parts mean, below. */
function showKey(shape) {
  const named = last.by.length === 2 && shape !== "heat" ? distinct(last, 1) : [];
  $("legend").replaceChildren(...named.map((label, place) => make("span", {}, make("i", { class: `c${place}` }), make("bdi", { text: short(label, 40) }))), ...(shape === "heat" || shape === "map" ? [rampWithNumbers()] : []));
  const sure = percentOf(last.confidence);
  const scale = scaleOf(rowsOf(last), shape, state.scale);
  const meaning = {
    heat: t("Cells fade as their error grows: where the noise may be as large as the number, nearly nothing is left."),
    map: t("Areas fade as their error grows: where the noise may be as large as the number, nearly nothing is left."),
    bars: scale === "log" ? t("The true number lies somewhere in the band around a dot ({0} sure). Where two bands overlap, the numbers may be the same.", sure)
      : t("The true number lies somewhere in the fading part of a bar ({0} sure); the mark is the best guess. Where two fading parts overlap, the numbers may be the same.", sure),
    lines: t("The true line runs somewhere in the band ({0} sure at each point). Bumps smaller than the band may be noise.", sure),
  }[shape];
  const left = shape === "map" ? leftOut(last, boundaries(state.release, last.by[0])) : [];
  $("key").replaceChildren(...[cutInWords(last, shape), axisInWords(scale, shape), meaning, ...left].filter(Boolean).map((text) => make("span", { text })));
}

const legendNumber = (value) => (form() === "percent" ? `${figures(value * 100, 2)} %` : number(+value.toPrecision(3), 0, Math.abs(value) < 10 ? "" : "whole"));

/** The colours of a heat map, with numbers below them. */
function rampWithNumbers() {
  const canvas = make("canvas", { width: 120, height: 1, "aria-hidden": "true" });
  const pen = canvas.getContext("2d");
  for (let x = 0; x < 120; x += 1) { pen.fillStyle = ramp(x / 119); pen.fillRect(x, 0, 1, 1); }
  return make("span", { class: "ramp" }, canvas, make("span", { class: "along" }, ...shades(last, state.scale).named.map((value) => make("span", { text: legendNumber(value) }))));
}

async function saveAs(kind) {
  if (!last) return;
  const name = `${state.release}-${state.by.join("-") || "total"}`.replace(/[^A-Za-z0-9_-]+/g, "-").slice(0, 80);
  try {
    if (kind === "csv") return save(await csv(state.release, { sql: last.sql, ...manner() }), `${name}.csv`);
    const svg = $("chart").querySelector("svg");
    if (!svg) return;
    const promise = `${percentOf(last.confidence)} ${last.interval} intervals. ${state.about.dataset}, ${state.about.promise}, released by Sfumato.`;
    const shaded = svg.querySelector("[data-mark=cell], [data-mark=geo]");
    const { named, shade } = shaded ? shades(last, state.scale) : { named: [] };
    const colours = shaded ? named.map((value) => [legendNumber(value), shade(value)]) : last.by.length === 2 ? distinct(last, 1).map((label, place) => [short(label, 24), PALETTE[place]]) : [];
    const whole = alone(svg, title(), promise, colours);
    save(kind === "svg" ? asSvg(whole) : await asPng(whole), `${name}.${kind}`);
  } catch (error) { refuse(error.message); }
}

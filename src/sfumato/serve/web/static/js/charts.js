// Charts by Observable Plot. A bar is solid up to the low end of its interval and dissolves towards the high end.
/* global Plot, d3 */
import { axis as axisFor, cutShort, floorOf, scaleOf, torn } from "./axes.js";
import { t } from "./tongue.js";
import { interval, number, short, shown } from "./words.js";

export const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9"]; // Okabe and Ito
export const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";

/** One object a row of an answer: labels, number, ends. */
export function rowsOf(data) {
  return data.keys.map((key, place) => ({
    key, place, value: data.values[place], error: data.stderr[place], low: data.low[place], high: data.high[place],
  })).filter((row) => row.value !== null || row.low !== null);
}

export const words = (row, form, part) => [
  row.key.map(shown).join(" · "), number(row.value, row.error, form),
  `${interval(row.low, row.high, row.error, form)}`, ...(part ? [t("only {0}", part)] : []),
].join("\n");

/** The part of its period that a row holds, where that is not all of it. */
const partOf = (data) => {
  const cuts = cutShort(data);
  return (row) => row.key.map((label, place) => cuts[place].get(String(label))).find(Boolean);
};

function gradients(colours) {
  return () => {
    const space = "http://www.w3.org/2000/svg";
    const defs = document.createElementNS(space, "defs");
    colours.forEach((colour, place) => {
      for (const [name, ends] of [["up", [0, 1, 0, 0]], ["down", [0, 0, 0, 1]], ["right", [0, 0, 1, 0]], ["left", [1, 0, 0, 0]]]) {
        const fade = document.createElementNS(space, "linearGradient");
        fade.id = `fade-${name}-${place}`;
        ["x1", "y1", "x2", "y2"].forEach((attribute, index) => fade.setAttribute(attribute, ends[index]));
        for (const [offset, opacity] of [[0, 0.95], [0.5, 0.5], [1, 0.06]]) {
          const stop = document.createElementNS(space, "stop");
          stop.setAttribute("offset", offset);
          stop.setAttribute("stop-color", colour);
          stop.setAttribute("stop-opacity", opacity);
          fade.append(stop);
        }
        defs.append(fade);
      }
    });
    return defs;
  };
}

const solid = (row) => (row.low === null || row.high === null ? row.value : row.low > 0 ? row.low : row.high < 0 ? row.high : 0);

export function plot(options) {
  const svg = Plot.plot({ className: "plot", style: { fontSize: "12px", overflow: "visible" }, ...options });
  for (const rules of svg.querySelectorAll("style")) rules.remove(); // the page's own stylesheet has them; none is inline
  for (const mark of svg.querySelectorAll("g[aria-label]")) { // a group without a role has no name that is read out
    mark.dataset.mark = mark.getAttribute("aria-label");
    mark.removeAttribute("aria-label");
  }
  return svg;
}

const tickFormat = (form, rows) => {
  const large = d3.max(rows, (row) => Math.max(Math.abs(row.value ?? 0), Math.abs(row.high ?? 0))) >= 1e4;
  return (value) => (form === "percent" ? `${+(value * 100).toPrecision(3)} %` : d3.format(large && value >= 1000 ? "~s" : ",~r")(value));
};

const LETTER = 6.6; // pixels of a digit in a chart

/** Labels of the first attribute in the order that was chosen: as listed, or by the number (of a group of bars, by their sum). */
function ordered(firsts, rows, order) {
  if (order !== "highest" && order !== "lowest") return firsts;
  const sums = new Map();
  for (const row of rows) sums.set(JSON.stringify(row.key[0]), (sums.get(JSON.stringify(row.key[0])) ?? 0) + (row.value ?? 0));
  const sum = (label) => sums.get(JSON.stringify(label)) ?? -Infinity;
  return [...firsts].sort((one, other) => (order === "highest" ? sum(other) - sum(one) : sum(one) - sum(other)));
}

function thinned(length, room) {
  const least = Math.max(1, length / Math.max(1, room));
  const ten = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((one) => one * ten).find((one) => one >= least);
  return d3.range(0, length, step);
}

export function bars(data, { width, form, ordered: along, label, order, scale: wish }) {
  const rows = rowsOf(data);
  const grouped = data.by.length === 2;
  const seconds = grouped ? distinct(data, 1) : [null];
  const colours = grouped ? PALETTE : [style("--accent")];
  const ink = style("--ink");
  const part = partOf(data);
  const firsts = ordered(distinct(data, 0), rows, order);
  const longest = d3.max(firsts, (one) => short(one).length) ?? 1;
  const across = !along || (width < 460 && firsts.length <= 40) || longest * 7.2 * firsts.length > width * 3;
  const place = (row) => (grouped ? seconds.findIndex((one) => same(one, row.key[1])) : 0);
  const places = new Map(firsts.map((one, at) => [JSON.stringify(one), at]));
  const first = (row) => places.get(JSON.stringify(row.key[0]));
  const fade = (row) => `url(#fade-${across ? (row.high > 0 ? "right" : "left") : row.high > 0 ? "up" : "down"}-${place(row)})`;
  const thick = grouped ? Math.max(8, 20 - seconds.length) : 24;
  const bounded = rows.filter((row) => row.low !== null && row.high !== null);
  const scale = scaleOf(rows, "bars", wish);
  const log = scale === "log";
  const { options, ticks, at } = axisFor(rows, scale, across ? (width < 460 ? 4 : 6) : 5);
  const main = across ? "y" : "x";
  const value = across ? "x" : "y";
  const facet = grouped ? { [across ? "fy" : "fx"]: first } : {};
  const band = grouped ? { [main]: place } : { [main]: first };
  const Bar = across ? Plot.barX : Plot.barY;
  const Tick = across ? Plot.tickX : Plot.tickY;
  const Rule = across ? Plot.ruleY : Plot.ruleX;
  const marginLeft = across ? Math.min(width * 0.36, Math.max(40, longest * 7.2 + 14)) : 52;
  const text = (row) => number(row.value, form === "whole" ? 1 : row.error, form);
  const letters = d3.max(rows, (row) => text(row).length) ?? 1;
  const turned = across ? 0 : numbersAt(letters, ((width - marginLeft - 14) / firsts.length / seconds.length) * (grouped ? 0.8 : 0.96));
  const marginRight = across ? Math.min(width * 0.3, letters * LETTER + 14) : 14;
  const side = across ? { textAnchor: "start", dx: log ? 9 : 6 } : turned ? { textAnchor: "start", rotate: turned, dy: -5 } : { lineAnchor: "bottom", dy: -5 };
  const format = (index) => short(firsts[index], across ? Math.floor(marginLeft / 7.8) : 24);
  const step = across ? 1 : Math.ceil((firsts.length * (longest * 7.2 + 12)) / (width - 60));
  const labels = { tickSize: 0, label: null, ticks: d3.range(0, firsts.length, Math.max(1, step)), tickFormat: format };
  const axis = grouped ? (across ? Plot.axisFy({ ...labels, anchor: "left" }) : Plot.axisFx({ ...labels, anchor: "bottom" })) : across ? Plot.axisY(labels) : Plot.axisX(labels);
  const ends = { [`${value}1`]: (row) => at(row.low), [`${value}2`]: (row) => at(row.high) };
  const known = rows.filter((row) => row.value !== null);
  const colour = (row) => colours[place(row)];
  const drawn = log ? [ // of a bar on a logarithmic axis, the length would say nothing
    Rule(bounded, { ...band, ...facet, ...ends, stroke: colour, strokeWidth: Math.min(9, thick * 0.5), strokeOpacity: (row) => (part(row) ? 0.18 : 0.35), strokeLinecap: "round" }),
    Plot.dot(known.filter((row) => at(row.value) === row.value), { ...band, ...facet, [value]: "value", r: 4, fill: (row) => (part(row) ? style("--card") : colour(row)), stroke: colour, strokeWidth: 1.5 }),
  ] : [
    Bar(rows, { ...band, ...facet, [`${value}1`]: 0, [`${value}2`]: solid, fill: colour, fillOpacity: (row) => (part(row) ? 0.4 : 0.95) }),
    Bar(bounded, { ...band, ...facet, ...ends, fill: fade, fillOpacity: (row) => (part(row) ? 0.5 : 1) }),
    Rule(bounded, { ...band, ...facet, ...ends, stroke: ink, strokeOpacity: 0.7, strokeWidth: 1.2 }),
    Tick(known, { ...band, ...facet, [value]: "value", stroke: ink, strokeWidth: 1.4, insetTop: across ? 3 : 0, insetBottom: across ? 3 : 0, insetLeft: across ? 0 : 3, insetRight: across ? 0 : 3 }),
    across ? Plot.ruleX([0], { strokeOpacity: 0.4 }) : Plot.ruleY([0], { strokeOpacity: 0.4 }),
  ];
  const beyond = (row) => at(Math.max(0, row.value, row.high ?? 0));
  return plot({
    width,
    height: across ? Math.max(120, firsts.length * (grouped ? seconds.length * thick + 14 : thick + 8) + 46) : Math.min(420, Math.max(260, width * 0.46)),
    marginLeft, marginRight, marginTop: across ? 14 : turned ? letters * LETTER + 8 : 22, marginBottom: 34,
    ariaLabel: label,
    [main]: { type: "band", domain: d3.range(grouped ? seconds.length : firsts.length), axis: null, padding: grouped ? 0.08 : 0.24 },
    [value]: { axis: null, ...options },
    ...(grouped ? { [across ? "fy" : "fx"]: { domain: d3.range(firsts.length), axis: null, padding: 0.16 } } : {}),
    marks: [
      gradients(colours),
      across ? Plot.gridX({ strokeOpacity: 0.13, ticks }) : Plot.gridY({ strokeOpacity: 0.13, ticks }),
      across ? Plot.axisX({ tickSize: 0, label: null, ticks, tickFormat: tickFormat(form, rows) })
        : Plot.axisY({ tickSize: 0, label: null, ticks, tickFormat: tickFormat(form, rows) }),
      axis,
      ...drawn,
      turned === null ? null : Plot.text(known, { ...band, ...facet, [value]: beyond, text, ariaDescription: "numbers", fill: style("--soft"), fontSize: 11, ...side }),
      Plot.tip(rows, (across ? Plot.pointerY : Plot.pointerX)({ ...band, ...facet, [value]: (row) => at(row.value), title: (row) => words(row, form, part(row)), lineHeight: 1.35, fontSize: 12.5 })),
    ],
    color: { type: "identity" },
    opacity: { type: "identity" },
  });
}

/** How numbers stand at bars in so much room: level, upright, or not at all. */
function numbersAt(longest, room) {
  return longest * LETTER <= room ? 0 : room >= 13 ? -90 : null;
}

export function lines(data, { width, form, label, scale: wish }) {
  const rows = rowsOf(data);
  const firsts = distinct(data, 0);
  const seconds = data.by.length === 2 ? distinct(data, 1) : [null];
  const colours = seconds.length > 1 ? PALETTE : [style("--accent")];
  const index = new Map(firsts.map((one, place) => [JSON.stringify(one), place]));
  const x = (row) => index.get(JSON.stringify(row.key[0]));
  const colour = (row) => colours[data.by.length === 2 ? seconds.findIndex((one) => same(one, row.key[1])) : 0];
  const longest = d3.max(firsts, (one) => short(one).length) ?? 1;
  const bounded = rows.filter((row) => row.low !== null && row.high !== null);
  const z = (row) => JSON.stringify(row.key[1] ?? null);
  const part = partOf(data);
  const scale = scaleOf(rows, "lines", wish);
  const { options, ticks, at } = axisFor(rows, scale, 5);
  const known = rows.filter((row) => row.value !== null);
  const whole = known.filter((row) => !part(row));
  const [from, to] = d3.extent(whole, x);
  const last = Math.max(1, firsts.length - 1);
  const stroke = { x, y: (row) => at(row.value), stroke: colour, strokeWidth: 2, strokeLinejoin: "round" };
  const ends = { x, y1: (row) => at(row.low), y2: (row) => at(row.high) };
  const wide = d3.max(ticks.length ? ticks : [0], (tick) => tickFormat(form, rows)(tick).length) ?? 0;
  return plot({
    width, height: Math.min(430, Math.max(260, width * 0.46)), marginLeft: Math.max(52, wide * LETTER + 14), marginRight: 18, marginTop: 14, marginBottom: 34, ariaLabel: label,
    x: { type: "linear", domain: [0, last], axis: null },
    y: { axis: null, ...options },
    color: { type: "identity" },
    marks: [
      Plot.gridY({ strokeOpacity: 0.13, ticks }),
      Plot.axisY({ tickSize: 0, label: null, ticks, tickFormat: tickFormat(form, rows) }),
      Plot.axisX({ tickSize: 4, label: null, ticks: thinned(firsts.length, (width - 70) / (longest * 7.2 + 16)), tickFormat: (place) => short(firsts[place]) }),
      scale === "fit" ? torn(style("--ink")) : scale === "zero" ? Plot.ruleY([0], { strokeOpacity: 0.4 }) : null,
      Plot.areaY(bounded, { ...ends, z, fill: colour, fillOpacity: 0.22 }),
      Plot.lineY(whole, { ...stroke, z }),
      Plot.lineY(known.filter((row) => x(row) <= from), { ...stroke, z, strokeDasharray: "3 4" }),
      Plot.lineY(known.filter((row) => x(row) >= to), { ...stroke, z, strokeDasharray: "3 4" }),
      firsts.length <= 60 ? Plot.ruleX(bounded, { ...ends, stroke: colour, strokeWidth: 1.4 }) : null,
      firsts.length <= 60 ? Plot.dot(whole, { x, y: (row) => at(row.value), r: 2.6, fill: colour }) : null,
      Plot.dot(known.filter(part), { x, y: (row) => at(row.value), r: 3.6, fill: style("--card"), stroke: colour, strokeWidth: 1.6, ariaDescription: "cut short" }),
      Plot.tip(rows, Plot.pointer({ x, y: (row) => at(row.value), title: (row) => words(row, form, part(row)), lineHeight: 1.35, fontSize: 12.5 })),
    ],
  });
}

/** How far a cell of a heat map is to be trusted: 1, or fading to nearly nothing as its error grows. */
export function trust(row, data, spread) {
  if (row.value === null || row.low === null || row.high === null) return 0.04;
  const scale = data.amount === "average" || data.amount === "median" ? spread / 2 : Math.abs(row.value);
  return scale > 0 ? Math.max(0.06, 1 - Math.min(1, (row.high - row.low) / 2 / scale)) : 0.06;
}

export const ramp = (t) => d3.interpolateYlGnBu(isDark() ? 0.93 - 0.9 * t : 0.1 + 0.9 * t);

/** Shade of a number, and the numbers that a legend names: along a line, or along its logarithm. */
export function shades(data, wish) {
  const rows = rowsOf(data);
  const [low, high] = d3.extent(rows, (row) => row.value);
  const scale = scaleOf(rows, "heat", wish);
  const from = scale === "log" ? Math.min(floorOf(rows), high) : data.amount === "count" ? Math.min(0, low) : low;
  const shade = (scale === "log" ? d3.scaleSequentialLog : d3.scaleSequential)([from, high], ramp).clamp(true);
  const at = (share) => (scale === "log" ? from * (high / from) ** share : from + share * (high - from));
  return { scale, shade, named: from < high ? [0, 0.25, 0.5, 0.75, 1].map(at) : [from], spread: high - low };
}

export function heat(data, { width, form, label, called, scale: wish }) {
  const rows = rowsOf(data);
  const [firsts, seconds] = [distinct(data, 0), distinct(data, 1)];
  const { shade, spread, scale } = shades(data, wish);
  const part = partOf(data);
  const cuts = cutShort(data);
  const marked = (name, place, most) => `${short(name, most)}${cuts[place].has(String(name)) ? "*" : ""}`;
  const places = [firsts, seconds].map((all) => new Map(all.map((one, place) => [JSON.stringify(one), place])));
  const longest = d3.max(seconds, (one) => short(one).length) ?? 1;
  const widest = d3.max(firsts, (one) => short(one).length) ?? 1;
  const marginLeft = Math.min(width * 0.34, Math.max(36, longest * 7 + 12));
  const cell = Math.min(34, Math.max(seconds.length > 60 ? 5 : 14, ((width - marginLeft) / firsts.length) * 0.9));
  return plot({
    width, height: seconds.length * cell + 74, marginLeft, marginRight: 12, marginTop: 26, marginBottom: 44, ariaLabel: label,
    x: { type: "band", domain: d3.range(firsts.length), axis: null, padding: firsts.length > 60 ? 0 : 0.05 },
    y: { type: "band", domain: d3.range(seconds.length), axis: null, padding: seconds.length > 60 ? 0 : 0.05 },
    color: { type: "identity" },
    marks: [
      Plot.axisX({ tickSize: 0, label: short(called(data.by[0]), 30), labelAnchor: "right", labelArrow: "none", ticks: thinned(firsts.length, (width - marginLeft) / (Math.min(widest, 14) * 7 + 12)), tickFormat: (place) => marked(firsts[place], 0, 14) }),
      Plot.axisY({ tickSize: 0, label: short(called(data.by[1]), 30), labelAnchor: "top", labelArrow: "none", ticks: thinned(seconds.length, (seconds.length * cell) / 14), tickFormat: (place) => marked(seconds[place], 1, Math.floor(marginLeft / 7.8)) }),
      Plot.cell(rows, {
        x: (row) => places[0].get(JSON.stringify(row.key[0])), y: (row) => places[1].get(JSON.stringify(row.key[1])),
        fill: (row) => (row.value === null ? "#888888" : shade(scale === "log" && row.value <= 0 ? Number.MIN_VALUE : row.value)), fillOpacity: (row) => trust(row, data, spread), rx: firsts.length > 60 ? 0 : 2,
      }),
      Plot.tip(rows, Plot.pointer({
        x: (row) => places[0].get(JSON.stringify(row.key[0])), y: (row) => places[1].get(JSON.stringify(row.key[1])),
        title: (row) => words(row, form, part(row)), lineHeight: 1.35, fontSize: 12.5,
      })),
    ],
    opacity: { type: "identity" },
  });
}

/** Two groups and their difference, each with its interval. */
export function twoGroups(rows, { width, form, label }) {
  const ink = style("--ink");
  const longest = d3.max(rows, (row) => short(row.name, 22).length);
  const marginLeft = Math.min(width * 0.4, longest * 7.4 + 16);
  return plot({
    width, height: rows.length * 44 + 40, marginLeft, marginRight: 20, marginTop: 8, marginBottom: 30, ariaLabel: label,
    y: { type: "band", domain: d3.range(rows.length), axis: null }, x: { axis: null, nice: true, zero: rows.length === 1 }, color: { type: "identity" },
    marks: [
      gradients([rows.length === 1 ? PALETTE[4] : PALETTE[0], PALETTE[1]]),
      Plot.gridX({ strokeOpacity: 0.13, ticks: 5 }),
      Plot.axisX({ tickSize: 0, label: null, ticks: width < 460 ? 3 : 5, tickFormat: tickFormat(form, rows) }),
      Plot.axisY({ tickSize: 0, label: null, tickFormat: (place) => short(rows[place].name, 22) }),
      rows.length === 1 ? Plot.ruleX([0], { stroke: ink, strokeOpacity: 0.6 }) : null,
      Plot.ruleY(rows, { y: (row) => row.place, x1: "low", x2: "high", stroke: (row) => row.colour, strokeWidth: 9, strokeOpacity: 0.3, strokeLinecap: "round" }),
      Plot.ruleY(rows, { y: (row) => row.place, x1: "low", x2: "high", stroke: (row) => row.colour, strokeWidth: 1.6 }),
      Plot.dot(rows, { y: (row) => row.place, x: "value", r: 5.5, fill: (row) => row.colour, stroke: style("--card"), strokeWidth: 1.5 }),
    ],
  });
}

export function distinct(data, column) {
  const seen = new Map();
  for (const key of data.keys) seen.set(JSON.stringify(key[column]), key[column]);
  return [...seen.values()];
}

const same = (one, other) => one === other;

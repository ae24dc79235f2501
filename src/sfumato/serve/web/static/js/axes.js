// Axes: where they begin, how they run, what stands beside them.
/* global Plot, d3 */
import { t } from "./tongue.js";

export const SCALES = { auto: t("automatic"), zero: t("from 0"), fit: t("fitted"), log: t("logarithmic") };
const DWARFED = 40; // times: of the highest group, so little is left of most others that no eye compares them

const known = (rows) => rows.filter((row) => Number.isFinite(row.value) && row.low !== null && row.high !== null);

/** Lowest and highest end of all intervals. */
const reach = (rows) => [d3.min(rows, (row) => Math.min(row.low, row.value)), d3.max(rows, (row) => Math.max(row.high, row.value))];

/** Whether most groups that stand clear of the noise would be too short to compare beside the highest. */
export function dwarfed(rows) {
  const clear = known(rows).filter((row) => row.low > 0);
  return clear.length > 2 && d3.median(clear, (row) => row.value) * DWARFED < d3.max(clear, (row) => row.value);
}

/** Whether a logarithm can show them: some stand clear above zero, and none below. */
export const canLog = (rows) => known(rows).some((row) => row.low > 0) && !known(rows).some((row) => row.high < 0);

/** "zero", "fit" or "log". wish: what was chosen, "auto" if nothing. */
export function scaleOf(rows, shape, wish) {
  const some = known(rows);
  if (!some.length) return "zero";
  if (wish === "log" && canLog(rows)) return "log";
  if (wish === "zero" || (wish === "fit" && shape === "lines")) return wish;
  if (shape !== "lines") return dwarfed(rows) && canLog(rows) ? "log" : "zero";
  const [low, high] = reach(some);
  return (low > 0 || high < 0) && high - low < Math.max(Math.abs(low), Math.abs(high)) / 2 ? "fit" : "zero";
}

/** Least power of ten at which a logarithmic axis begins, below all that stands clear of zero. */
export const floorOf = (rows) => 10 ** Math.floor(Math.log10(d3.min(known(rows).filter((row) => row.low > 0), (row) => row.low)) + 1e-9);

/** An axis's options for Plot, and its ticks. */
export function axis(rows, scale, ticks) {
  if (scale !== "log") return { options: { nice: true, zero: scale === "zero" }, ticks, at: (number) => number };
  const floor = floorOf(rows);
  const top = d3.max(known(rows), (row) => row.high) * 1.05;
  const powers = d3.range(Math.round(Math.log10(floor)), Math.ceil(Math.log10(top)) + 1).map((power) => 10 ** power);
  const all = powers.length < 4 ? powers.flatMap((one) => [one, 2 * one, 5 * one]) : powers;
  return { options: { type: "log", domain: [floor, top] }, ticks: all.filter((one) => one <= top), at: (number) => Math.max(floor, number) };
}

/** The torn lower edge of a chart whose axis does not begin at 0. */
export function torn(colour) {
  return (index, scales, channels, { width, height, marginLeft, marginRight, marginBottom }) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const points = d3.range(marginLeft, width - marginRight, 7).map((x, place) => `${x},${height - marginBottom + (place % 2 ? 3 : -3)}`);
    for (const [name, value] of Object.entries({ d: `M${points.join("L")}`, fill: "none", stroke: colour, "stroke-opacity": 0.45, "aria-label": "torn" })) path.setAttribute(name, value);
    return path;
  };
}

/** In words, for the key below the chart; empty where the axis is the usual one. */
export function axisInWords(scale, shape) {
  if (scale === "fit") return t("The axis does not begin at 0 (torn edge): heights show differences, not sizes.");
  if (scale !== "log") return "";
  return shape === "heat" || shape === "map" ? t("Colours are logarithmic: equal steps are equal factors.") : t("The axis is logarithmic: equal steps are equal factors. What may be 0 reaches its lower end.");
}

/** First and last groups that hold less than the others: {place of the attribute: {label: part}}. Averages do not mind. */
export function cutShort(data) {
  if (!["count", "share", "sum"].includes(data.amount)) return data.by.map(() => new Map());
  return data.by.map((name) => new Map(data.cut_short?.[name] ?? []));
}

/** How many of them the answer shows, in words. */
export function cutInWords(data, shape) {
  const shown = cutShort(data).flatMap((cut, place) => [...cut].filter(([label]) => data.keys.some((key) => String(key[place]) === label)));
  return shown.length ? t("{0}, because shorter than the others: {1}. Rows from beyond the bounds count there, too.", { bars: t("Paler"), lines: t("Hollow"), heat: t("Marked *") }[shape], shown.map(([label, part]) => t("{0} has {1}", label, part)).join(", ")) : "";
}

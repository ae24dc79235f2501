// Maps: areas of a column shaded by their numbers, from public boundaries that the server has. No tiles, no network.
/* global Plot */
import { get } from "./api.js";
import { plot, rowsOf, shades, style, trust, words } from "./charts.js";
import { t } from "./tongue.js";
import { short } from "./words.js";

const kept = new Map(); // boundaries that are here already
const keyOf = (release, column) => JSON.stringify([release, column]);
const labelKey = (label) => JSON.stringify(label);

/** Whether a chart by these columns can be a map. */
export const hasMap = (about, by) => by.length === 1 && about.maps.includes(by[0]);

/** Boundaries of a column, scaled to a plane; undefined if they have not been fetched yet. */
export const boundaries = (release, column) => kept.get(keyOf(release, column));

export async function fetchBoundaries(release, column) {
  const key = keyOf(release, column);
  if (!kept.has(key)) kept.set(key, onPlane(await get(`/api/releases/${encodeURIComponent(release)}/map/${encodeURIComponent(column)}`)));
  return kept.get(key);
}

function onPlane(found) {
  const scaled = (ring) => ring.map(([x, y]) => [x * found.aspect, y]);
  const features = found.features.map((one) => ({ ...one, geometry: { ...one.geometry, coordinates: one.geometry.coordinates.map((polygon) => polygon.map(scaled)) } }));
  return { ...found, features };
}

function boxOf({ features }) {
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  for (const one of features) for (const [outer] of one.geometry.coordinates) for (const [x, y] of outer) {
    box[0] = Math.min(box[0], x); box[1] = Math.min(box[1], y); box[2] = Math.max(box[2], x); box[3] = Math.max(box[3], y);
  }
  return box;
}

export function map(data, { width, form, label, scale: wish, areas }) {
  const { shade, spread, scale } = shades(data, wish);
  const rows = new Map(rowsOf(data).map((row) => [labelKey(row.key[0]), row]));
  const drawn = areas.features.map((one) => ({ ...one, row: rows.get(labelKey(one.properties.label)) }));
  const [blank, known] = [drawn.filter((one) => !one.row), drawn.filter((one) => one.row)];
  const [west, south, east, north] = boxOf(areas);
  const height = Math.round(Math.min(520, Math.max(180, (width * (north - south)) / (east - west || 1))));
  const colour = ({ row }) => (row.value === null ? "#888888" : shade(scale === "log" && row.value <= 0 ? Number.MIN_VALUE : row.value));
  const line = { stroke: style("--ink"), strokeOpacity: 0.45, strokeWidth: drawn.length > 500 ? 0.35 : 0.7, strokeLinejoin: "round" };
  return plot({
    width, height, margin: 0, ariaLabel: label,
    projection: { type: "reflect-y", domain: areas, inset: 3 },
    color: { type: "identity" },
    opacity: { type: "identity" },
    marks: [
      Plot.geo(blank, { ...line, fill: "none" }),
      Plot.geo(known, { ...line, fill: colour, fillOpacity: ({ row }) => trust(row, data, spread) }),
      Plot.tip(known, Plot.pointer(Plot.centroid({ title: ({ row }) => words(row, form), maxRadius: Infinity, lineHeight: 1.35, fontSize: 12.5 }))),
    ],
  });
}

/** What a map leaves out, in words: rows without an area, areas without a row. */
export function leftOut(data, areas) {
  const labels = new Set(areas.features.map((one) => labelKey(one.properties.label)));
  const rows = new Set(rowsOf(data).map((row) => labelKey(row.key[0])));
  const without = rowsOf(data).map((row) => row.key[0]).filter((one) => !labels.has(labelKey(one)));
  const listed = without.slice(0, 6).map((one) => short(one)).join(", ") + (without.length > 6 ? ", …" : "");
  const said = without.length ? [t("Not on the map: {0}.", listed)] : [];
  return [...labels].some((one) => !rows.has(one)) ? [...said, t("Areas that are only outlined have no number here.")] : said;
}

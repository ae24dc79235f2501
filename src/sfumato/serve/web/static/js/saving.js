// Charts and numbers as files.
import { t } from "./tongue.js";
import { say } from "./words.js";

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  say(t("Saved {0}.", name));
}

/** A picture that looks the same by itself: colours and fonts as attributes, the paper and the title in it. */
export function alone(svg, title, about, series = []) {
  const root = getComputedStyle(document.documentElement);
  const colour = (name) => root.getPropertyValue(name).trim();
  const space = "http://www.w3.org/2000/svg";
  const box = svg.viewBox.baseVal;
  const [left, top, bottom] = [16, 52, series.length ? 58 : 34];
  const [width, height] = [box.width + 2 * left, box.height + top + bottom];
  const whole = document.createElementNS(space, "svg");
  const set = (element, attributes) => { for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value); return element; };
  set(whole, { xmlns: space, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 12, role: "img" });
  const text = (words, attributes) => { const one = set(document.createElementNS(space, "text"), attributes); one.textContent = words; return one; };
  const drawn = svg.cloneNode(true);
  for (const tip of drawn.querySelectorAll("[data-mark=tip], [aria-label=tip]")) tip.remove();
  set(drawn, { x: left, y: top, width: box.width, height: box.height, color: colour("--soft"), fill: "currentColor", "text-anchor": "middle" });
  drawn.removeAttribute("style");
  let along = left;
  const key = series.flatMap(([label, fill]) => { // which colour is which, in one line
    const at = along;
    along += 34 + [...label].length * 7.2;
    return [set(document.createElementNS(space, "rect"), { x: at, y: height - 44, width: 11, height: 11, rx: 2, fill }), text(label, { x: at + 17, y: height - 34, fill: colour("--ink") })];
  });
  const name = document.createElementNS(space, "title");
  name.textContent = title;
  whole.append(
    name,
    set(document.createElementNS(space, "rect"), { width, height, fill: colour("--card") }),
    text(title, { x: left, y: 32, "font-size": 17, "font-family": "Georgia, serif", fill: colour("--ink") }),
    drawn,
    ...key,
    text(about, { x: left, y: height - 12, fill: colour("--soft"), "font-size": 11 }),
  );
  return whole;
}

export const asSvg = (whole) => new Blob([new XMLSerializer().serializeToString(whole)], { type: "image/svg+xml" });

export async function asPng(whole) {
  const image = new Image();
  const address = URL.createObjectURL(asSvg(whole));
  try {
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    const sharp = 2;
    canvas.width = whole.getAttribute("width") * sharp;
    canvas.height = whole.getAttribute("height") * sharp;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally { URL.revokeObjectURL(address); }
}

// The page in the reader's language: English stands in the code, each other language in one file under lang/.
// Numbers are written as the language has it. What the server says (notes, guarantees, refusals) stays English.
/* global d3 */

export const TONGUES = { en: ["English", "en-GB"], de: ["Deutsch", "de-DE"], fr: ["Français", "fr-FR"] };
const kept = () => { try { return localStorage.getItem("language"); } catch { return null; } };
export const tongue = [kept(), ...(navigator.languages ?? []).map((one) => one.slice(0, 2))].find((one) => Object.hasOwn(TONGUES, one ?? "")) ?? "en";
export const LOCALE = TONGUES[tongue][1];
const messages = tongue === "en" ? {} : (await import(`./lang/${tongue}.js`)).default;

/** A text in the language of the page; {0}, {1} are filled in. */
export const t = (text, ...parts) => (messages[text] ?? text).replace(/\{(\d)\}/g, (_, place) => parts[place]);

const TOLD = ["aria-label", "placeholder"];

/** What stands in the page from its beginning. */
export function translate(root) {
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data;
    const trimmed = text.trim().replace(/\s+/g, " ");
    if (messages[trimmed]) texts.currentNode.data = `${/^\s/.test(text) ? " " : ""}${messages[trimmed]}${/\s$/.test(text) ? " " : ""}`;
  }
  for (const name of TOLD) for (const one of root.querySelectorAll(`[${name}]`)) one.setAttribute(name, t(one.getAttribute(name)));
}

/** Before anything is drawn. choice: where languages are chosen. */
export function speak(choice) {
  document.documentElement.lang = tongue;
  for (const [code, [name]] of Object.entries(TONGUES)) choice.append(new Option(name, code, false, code === tongue));
  choice.addEventListener("change", () => {
    try { localStorage.setItem("language", choice.value); } catch { /* private windows keep nothing */ }
    location.reload();
  });
  if (tongue === "en") return;
  const [decimal, thousands] = ["decimal", "group"].map((type) => new Intl.NumberFormat(LOCALE).formatToParts(12345.6).find((part) => part.type === type).value);
  d3.formatDefaultLocale({ decimal, thousands, grouping: [3], currency: ["", ""] });
  translate(document.body);
}

// The same question elsewhere: SQL, Python, curl.
import { t } from "./tongue.js";
import { make, say } from "./words.js";

const python = (text) => JSON.stringify(text); // a literal of JSON is one of Python
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function forms(about, question) {
  const { sql, confidence, interval, ...rest } = question;
  const more = Object.entries(rest).filter(([, value]) => value === true).map(([name]) => name);
  const given = [`confidence=${confidence}`, ...(interval !== "typical" ? [`interval=${python(interval)}`] : []), ...more.map((name) => `${name}=True`)];
  const body = { sql, confidence, interval, ...Object.fromEntries(more.map((name) => [name, true])) };
  const address = `${location.origin}/api/releases/${encodeURIComponent(about.name)}/query`;
  return {
    SQL: sql,
    Python: `import sfumato as sf\n\nrelease = sf.open(${python(about.file)})\nrelease.query(\n    ${python(sql)},\n    ${given.join(", ")},\n)`,
    curl: `curl -s ${shell(address)} \\\n  -H 'Content-Type: application/json' \\\n  -d ${shell(JSON.stringify(body))}`,
  };
}

export function showCopies(box, about, question) {
  box.replaceChildren(...Object.entries(forms(about, question)).flatMap(([name, text]) => {
    const code = make("pre", { class: "code", text, tabindex: "0", "aria-label": t("The question as {0}", name) });
    const button = make("button", { type: "button", text: t("Copy"), "aria-label": t("Copy as {0}", name), "data-copy": name });
    button.addEventListener("click", () => copy(text, name, code));
    return [make("div", { class: "copy-head" }, make("span", { text: name }), button), code];
  }));
}

async function copy(text, name, code) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // browsers keep the clipboard from pages without encryption: mark the text instead
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    if (!document.execCommand("copy")) { say(t("The text is marked; copy it by Ctrl and C.")); return; }
  }
  say(t("Copied as {0}.", name));
}

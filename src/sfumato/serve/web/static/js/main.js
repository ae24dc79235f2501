// The page put together: releases, tabs, how sure, and the four views.
import { get } from "./api.js";
import * as about from "./about.js";
import * as compare from "./compare.js";
import * as explore from "./explore.js";
import * as sql from "./sql.js";
import { STOPS, recall, remember, state } from "./state.js";
import { speak, t } from "./tongue.js";
import { $, digits, make, percentOf, short, shown } from "./words.js";

const TABS = ["explore", "compare", "sql", "about"];

function showTab(name, focus = false) {
  state.tab = name;
  for (const one of TABS) {
    const tab = $(`tab-${one}`);
    tab.setAttribute("aria-selected", String(one === name));
    tab.tabIndex = one === name ? 0 : -1;
    $(`view-${one}`).hidden = one !== name;
  }
  document.querySelector(".sureness").hidden = name === "about";
  if (focus) $(`tab-${name}`).focus();
  refresh();
  remember();
}

const refresh = () => ({ explore: explore.refresh, compare: compare.refresh, sql: sql.opened, about: () => {} })[state.tab]();

function sureness() {
  const slider = $("confidence");
  const show = () => {
    const text = percentOf(state.confidence);
    $("confidence-shown").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    const one = Math.round(1 / (1 - state.confidence));
    const often = one > 2 ? t("Of {0} error bars about one misses the true number", digits(one)) : t("Every other error bar misses the true number");
    $("sure-hint").textContent = state.interval === "typical" ? t("{0}, on average over questions.", often) : t("{0}, at most, for every table and every question.", often);
  };
  slider.value = Math.max(0, STOPS.indexOf(state.confidence));
  for (const radio of document.querySelectorAll("[name=interval]")) {
    radio.checked = radio.value === state.interval;
    radio.addEventListener("change", () => { state.interval = radio.value; show(); again(); });
  }
  slider.addEventListener("input", () => { state.confidence = STOPS[+slider.value]; show(); again(); });
  show();
}

const again = () => { remember(); if (state.tab === "sql") sql.refresh(); else refresh(); };

async function open(name, kept = {}) {
  state.release = name;
  state.about = await get(`/api/releases/${encodeURIComponent(name)}`);
  document.title = t("{0}: Sfumato explorer", state.about.dataset);
  explore.begun(kept);
  compare.begun();
  sql.begun(kept);
  about.begun();
  showTab(TABS.includes(kept.tab) ? kept.tab : state.about.answers_counts ? state.tab : "sql");
}

async function begin() {
  speak($("language"));
  const theme = $("theme");
  const inWords = () => { for (const name of ["Auto", "Light", "Dark"]) if (theme.textContent === name) { theme.textContent = t(name); theme.setAttribute("aria-label", t("Colours: {0}", t(name))); } };
  inWords();
  window.addEventListener("theme", inWords);
  const kept = recall();
  if (STOPS.includes(kept.confidence)) state.confidence = kept.confidence;
  if (["typical", "guaranteed"].includes(kept.interval)) state.interval = kept.interval;
  sureness();
  explore.setUp((text) => { showTab("sql", true); sql.put(text); });
  sql.setUp();
  for (const [place, name] of TABS.entries()) {
    $(`tab-${name}`).addEventListener("click", () => showTab(name));
    $(`tab-${name}`).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) showTab(TABS[(place + step + TABS.length) % TABS.length], true);
    });
  }
  window.addEventListener("theme", compare.redraw);
  window.addEventListener("resize", compare.redraw);
  const { releases } = await get("/api/releases");
  $("release").replaceChildren(...releases.map((one) => make("option", { value: one.name, text: `${shown(one.dataset)}${releases.filter((other) => other.dataset === one.dataset).length > 1 ? ` (${one.file})` : ""}` })));
  const first = releases.find((one) => one.name === kept.release) ?? releases[0];
  $("release").value = first.name;
  $("release").addEventListener("change", () => { $("no-release").hidden = true; open($("release").value); });
  if (kept.release !== undefined && first.name !== kept.release) {
    $("no-release").textContent = t("There is no release “{0}” here. You see {1}; {2}.", short(kept.release, 60), shown(first.dataset), releases.length > 1 ? t("{0} releases are listed above", releases.length) : t("it is the only one that this server has"));
    $("no-release").hidden = false;
  }
  await open(first.name, first.name === kept.release ? kept : {});
  document.documentElement.dataset.ready = "true";
}

begin().catch((error) => { $("refused").hidden = false; $("refused").textContent = error.message; });

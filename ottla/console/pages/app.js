// Shows the page that the address's fragment names, and redraws the page whenever the broker sends new values.

import { el, link } from "./dom.js";
import { Live, Refused, WRONG_TOKEN, askOtherTabs, hasToken, keepToken, onTokenOfOtherTab, setToken } from "./control.js";
import { overview } from "./overview.js";
import { topics, topic } from "./topics.js";
import { messages } from "./messages.js";
import { record } from "./record.js";
import { groups, group } from "./groups.js";
import { transactions, transaction } from "./transactions.js";
import { steering } from "./steering.js";
import { configs } from "./configs.js";
import { schemas, subject } from "./schemas.js";
import { find } from "./find.js";
import { hasRegistry, isElsewhere, isReadOnly } from "./mode.js";
import { theme } from "./theme.js";

const PAGES = { overview, topics, topic, messages, record, groups, group, transactions, transaction, schemas, subject, steering, configs };
if (isElsewhere) delete PAGES.steering;
if (!hasRegistry) {
  delete PAGES.schemas;
  delete PAGES.subject;
}
const IN_NAVIGATION = ["overview", "topics", "groups", "transactions", "schemas", "steering"].filter((name) => name in PAGES);
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 4000;
const MOST_SAID = 200;

const main = document.getElementById("main");
const state = document.getElementById("state");
const notice = document.getElementById("notice");
let live = null;
let timer = null;
let pauseMs = FIRST_PAUSE_MS;
// Requests the values of the shown page; null if they must not be requested again.
let listening = null;
let isPressed = false;
let later = null;
// The effects of an action, until the browser shows the page to which the action leads.
let news = null;

function address() {
  const [page, query = ""] = location.hash.slice(1).split("?");
  return { page: Object.hasOwn(PAGES, page) ? page : "overview", parameters: Object.fromEntries(new URLSearchParams(query)) };
}

// Decodes percent escapes. Text with invalid escapes, which a user may have typed, is returned unchanged.
function unquoted(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Moves the token from the address to the tab's storage. The address has the token in its fragment, which browsers send to no
// server.
function takeToken() {
  const name = "#token=";
  if (!location.hash.startsWith(name)) return;
  setToken(unquoted(location.hash.slice(name.length)));
  history.replaceState(null, "", `${location.pathname}#overview`);
}

function say(text, isBad = false) {
  state.textContent = text.length > MOST_SAID ? `${text.slice(0, MOST_SAID)}…` : text;
  state.className = isBad ? "bad" : "";
}

function entry(name, isHere) {
  const made = link(PAGES[name].label ?? name, name);
  if (isHere) made.setAttribute("aria-current", "page");
  return made;
}

function show() {
  live?.close();
  isPressed = false;
  later = null;
  clearTimeout(timer);
  pauseMs = FIRST_PAUSE_MS;
  say("");
  const { page, parameters } = address();
  const under = PAGES[page].under ?? page;
  const here = typeof under === "function" ? under(parameters) : under;
  document.getElementById("nav").replaceChildren(...IN_NAVIGATION.map((name) => entry(name, name === here)));
  document.title = `${PAGES[page].title?.(parameters) ?? PAGES[page].label ?? page} - ottla`;
  document.body.dataset.page = page;
  document.body.dataset.draws = "0";
  const drawn = el("div", { id: "live" });
  const form = PAGES[page].form?.(parameters);
  main.replaceChildren(...(form ? [form] : []), drawn);
  listening = () => listen(page, parameters, drawn);
  if (hasToken()) {
    if (!document.hidden) listening();
    return;
  }
  askForToken("");
  askOtherTabs();
}

// A hidden page requests no values. It keeps the input in its forms.
function pauseOrGoOn() {
  live?.close();
  clearTimeout(timer);
  if (!document.hidden && hasToken()) listening?.();
}

// Shows a problem, such as a broker that is paused or restarted, and leaves the old values on the screen.
function complain(drawn, text) {
  later = null;
  say(text, true);
  if (drawn.childElementCount === 0) drawn.replaceChildren(el("p", { class: "note" }, text));
}

function refuse(drawn, error) {
  // Status 404 means that the page's topic, group or transactional id does not exist.
  if (error.status === 404) drawn.replaceChildren();
  // Status 500 means a bug. Another request would only log the same error again.
  if (error.status === 500) listening = null;
  complain(drawn, error.message);
}

function listen(page, parameters, drawn) {
  const mine = new Live(`v1/${page}?${new URLSearchParams(parameters)}`, {
    values: (values) => {
      pauseMs = FIRST_PAUSE_MS;
      draw(page, values, parameters, drawn);
    },
    refused: (error) => refuse(drawn, error),
    ended: (error) => {
      if (mine !== live) return;
      if (error instanceof Refused && error.status === 401) {
        askForToken(WRONG_TOKEN);
        return;
      }
      if (error instanceof Refused) refuse(drawn, error);
      else if (listening !== null) complain(drawn, "the broker does not answer");
      if (listening === null) return;
      timer = setTimeout(() => listen(page, parameters, drawn), pauseMs);
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    },
  });
  live = mine;
}

// Returns why the page must not be redrawn now, which would replace a pressed button or selected text; else null.
function whyHeld(drawn) {
  if (isPressed) return "a button is pressed";
  const selection = document.getSelection();
  return !selection.isCollapsed && drawn.contains(selection.anchorNode) ? "text is selected" : null;
}

function draw(page, values, parameters, drawn) {
  const why = PAGES[page].held?.() ?? whyHeld(drawn);
  if (why !== null) {
    later = () => draw(page, values, parameters, drawn);
    say(`paused while ${why}`);
    return;
  }
  later = null;
  let elements;
  try {
    elements = PAGES[page].draw(values, parameters, { say });
  } catch (error) {
    // This error is a bug of the page. The connection stays open, because the next values may cause no error.
    console.error(error);
    complain(drawn, `this page cannot be drawn: ${error.message}`);
    return;
  }
  const focused = drawn.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  const scrolled = [...drawn.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  drawn.replaceChildren(...elements);
  say("live");
  [...drawn.querySelectorAll(".scroll")].forEach((one, at) => {
    one.scrollLeft = scrolled[at] ?? 0;
    if (one.scrollWidth > one.clientWidth) reachable(one, at);
  });
  if (focused !== null) {
    [...drawn.querySelectorAll("a, button, [tabindex]")].find((one) => nameOf(one) === focused)?.focus({ preventScroll: true });
  }
  document.body.dataset.draws = String(Number(document.body.dataset.draws) + 1);
}

// Makes a wide element focusable, so that it can be scrolled with the arrow keys.
function reachable(wide, at) {
  for (const [name, value] of Object.entries({ tabindex: 0, role: "region", "aria-label": `${wide.dataset.name} ${at + 1}` })) {
    wide.setAttribute(name, value);
  }
}

const nameOf = (element) => element.getAttribute("href") ?? element.getAttribute("aria-label");

function askForToken(why) {
  listening = null;
  later = null;
  say(why, true);
  const field = el("input", { type: "password", id: "token", autocomplete: "off", size: 40 });
  const taken = (event) => {
    event.preventDefault();
    // Pasted text often has spaces around it.
    setToken(field.value.trim());
    show();
  };
  const label = el("label", { for: "token" }, `Token from ${isElsewhere ? "the address that ottla console has printed" : "the line that the broker has printed at its start"}: `);
  main.replaceChildren(el("form", { onsubmit: taken }, label, field, el("button", {}, "continue")));
}

// A tab that has a token ignores other tokens.
onTokenOfOtherTab((token) => {
  if (!document.getElementById("token")) return;
  keepToken(token);
  show();
});

// Shows the result of an action until the user goes to another page or carries out another action.
function tell({ said, warning, page, parameters, goes }) {
  const more = page && !goes ? link(`show the ${page}`, page, parameters) : "";
  const text = el("span", {}, `${said[0].toUpperCase()}${said.slice(1)}. `, warning ? el("strong", {}, `${warning}. `) : "", more);
  notice.replaceChildren(text, el("button", { type: "button", onclick: hush }, "close"));
  notice.hidden = false;
}

function hush() {
  notice.hidden = true;
}

document.addEventListener("acted", ({ detail }) => {
  const before = location.href;
  if (detail.goes && detail.page) location.hash = `${detail.page}?${new URLSearchParams(detail.parameters)}`;
  if (location.href !== before) {
    // The handler of hashchange shows the result on the new page.
    news = detail;
    return;
  }
  // Request new values without `show`, which would clear the page's forms.
  live?.close();
  clearTimeout(timer);
  listening?.();
  tell(detail);
});

const isTyping = (element) => element.matches("input, textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !hasToken()) return;
  event.preventDefault();
  find();
});
document.getElementById("find").addEventListener("click", () => hasToken() && find());
document.getElementById("mode").hidden = !isReadOnly;
document.querySelector(".skip").addEventListener("click", (event) => {
  // Following the link would replace the fragment, which names the page.
  event.preventDefault();
  main.parentElement.focus();
});
theme(document.getElementById("theme"));
document.addEventListener("visibilitychange", pauseOrGoOn);

function letGo() {
  isPressed = false;
  later?.();
}

document.addEventListener("pointerdown", (event) => {
  // Only the main button counts, and only in the live part: context menus and select lists send no pointerup.
  isPressed = event.button === 0 && Boolean(document.getElementById("live")?.contains(event.target));
});
for (const end of ["pointerup", "pointercancel"]) {
  // Browsers send the click after pointerup, and redrawing first would remove its target.
  document.addEventListener(end, () => setTimeout(letGo));
}
window.addEventListener("blur", letGo);
document.addEventListener("selectionchange", () => later?.());
window.addEventListener("hashchange", () => {
  takeToken();
  hush();
  show();
  if (news !== null) tell(news);
  news = null;
});
takeToken();
show();

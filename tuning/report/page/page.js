"use strict";

const read = (id) => JSON.parse(document.getElementById(id).textContent);

// --- Tables: a click on a heading sorts, a second one turns the order round -----------------------

const collator = new Intl.Collator(undefined, { numeric: true });

function valueOf(cell) {
  return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return collator.compare(String(one), String(other));
}

function sortBy(heading) {
  const row = heading.parentElement;
  const place = [...row.children].indexOf(heading);
  const first = heading.classList.contains("number") ? "descending" : "ascending";
  const second = first === "ascending" ? "descending" : "ascending";
  const order = heading.getAttribute("aria-sort") === first ? second : first;
  for (const other of row.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  const body = heading.closest("table").tBodies[0];
  const sign = order === "ascending" ? 1 : -1;
  const sorted = [...body.rows].sort((one, other) => {
    const [a, b] = [one.cells[place], other.cells[place]];
    const [aEmpty, bEmpty] = [a.textContent === "", b.textContent === ""];
    if (aEmpty || bEmpty) return aEmpty - bEmpty; // what is empty stays last in either order
    return sign * compare(valueOf(a), valueOf(b));
  });
  body.append(...sorted);
}

for (const button of document.querySelectorAll(".sort")) {
  button.addEventListener("click", () => sortBy(button.parentElement));
}

// The table as comma-separated values: numbers as they are sorted by, with all their digits. What a spreadsheet would
// take for a formula gets an apostrophe (OWASP, "CSV Injection"): names come from the runs of anybody.
function asCsv(table) {
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const plain = (text) => (/^[=+\-@\t\r\n]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text);
  const written = (cell) => quoted(plain(cell.dataset.value ?? cell.textContent.trim()));
  return [...table.rows].map((row) => [...row.cells].map(written).join(",")).join("\n") + "\n";
}

function download(table) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([asCsv(table)], { type: "text/csv" }));
  link.download = `${table.caption.textContent.trim().toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, "-")}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

for (const button of document.querySelectorAll(".csv")) {
  const table = button.parentElement.previousElementSibling.querySelector("table");
  button.setAttribute("aria-label", `Download as CSV: ${table.caption.textContent.trim()}`);
  button.addEventListener("click", () => download(table));
}

// --- Sentences: ordered, filtered, a page at a time ------------------------------------------------

const [TEXT, GONE, ADDED] = [0, 3, 4];
const LONG = 2000; // characters of a text that gets a scroll bar of its own

function showSentences(text) {
  const form = document.getElementById("choice");
  const list = document.getElementById("list");
  const place = document.getElementById("place");
  const buttons = { previous: document.getElementById("previous"), next: document.getElementById("next") };
  const numbers = [...text.sentences.keys()];
  let searched = null; // in lower case, made when something is searched for
  let chosen = [];
  let first = 0;

  const system = () => Number(form.elements.system.value);
  const measure = () => Number(form.elements.measure.value);
  const size = () => Number(form.elements.size.value);

  function change(number) {
    const [, , distinct, places] = text.sentences[number];
    return distinct[places[system()]][measure()] - distinct[places[0]][measure()];
  }

  function having(wanted) {
    if (!wanted) return [...numbers];
    searched ??= text.sentences.map(([source, references, distinct]) =>
      [source, ...references, ...distinct.map((output) => output[TEXT])].join("\n").toLowerCase());
    return numbers.filter((number) => searched[number].includes(wanted));
  }

  const orders = {
    change: (a, b) => Math.abs(change(b)) - Math.abs(change(a)) || a - b,
    gain: (a, b) => change(b) - change(a) || a - b,
    loss: (a, b) => change(a) - change(b) || a - b,
    text: (a, b) => a - b,
  };

  function choose() {
    chosen = having(form.elements.filter.value.toLowerCase());
    chosen.sort(orders[form.elements.order.value]);
    first = 0;
    show();
  }

  function show() {
    const shown = chosen.slice(first, first + size());
    list.replaceChildren(...shown.map(article));
    const last = first + shown.length;
    place.textContent = shown.length ? `${first + 1}–${last} of ${chosen.length} sentences` : "No sentence has this text.";
    buttons.previous.disabled = first === 0;
    buttons.next.disabled = last >= chosen.length;
  }

  function article(number) {
    const [source, references, distinct, places] = text.sentences[number];
    const outputs = places.map((place) => distinct[place]);
    const rows = [["Source", [source]]];
    references.forEach((reference, i) => rows.push([references.length > 1 ? `Reference ${i + 1}` : "Reference", [reference]]));
    const own = outputs[system()];
    rows.push([text.systems[0], marked(outputs[0][TEXT], own[GONE], "del")]);
    if (form.elements.all.checked) {
      for (let i = 1; i < outputs.length; i++) rows.push([text.systems[i], marked(outputs[i][TEXT], outputs[i][ADDED], "ins")]);
    } else if (system() > 0) {
      rows.push([text.systems[system()], marked(own[TEXT], own[ADDED], "ins")]);
    }
    const made = element("article", heading(number, outputs[0], own), element("dl"));
    for (const [name, parts] of rows) {
      const words = element("div", ...parts);
      words.dir = "auto";
      if (words.textContent.length > LONG) {
        words.className = "long";
        words.tabIndex = 0;
        words.setAttribute("role", "region");
        words.setAttribute("aria-label", name);
      }
      made.lastChild.append(element("dt", name), element("dd", words));
    }
    return made;
  }

  function heading(number, before, after) {
    const scores = ["BLEU", "chrF"].map((name, i) => `${name} ${scored(before[i + 1], after[i + 1])}`).join(" · ");
    return element("h3", `Sentence ${number + 1} `, element("span", scores));
  }

  function scored(before, after) {
    if (system() === 0) return after.toFixed(1);
    const change = after - before;
    return `${before.toFixed(1)} → ${after.toFixed(1)} (${change < 0 ? "−" : "+"}${Math.abs(change).toFixed(1)})`;
  }

  function turn(pages) {
    first = Math.max(0, first + pages * size());
    show();
    document.getElementById("choice").scrollIntoView({ block: "start" });
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", choose);
  buttons.previous.addEventListener("click", () => turn(-1));
  buttons.next.addEventListener("click", () => turn(1));
  choose();
}

function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

// A text whose runs of words are marked; the ends of the runs are counted in words.
function marked(text, runs, tag) {
  const words = text.split(" ");
  const parts = [];
  let done = 0;
  for (const [first, last] of runs) {
    if (first > done) parts.push(`${words.slice(done, first).join(" ")} `);
    parts.push(element(tag, words.slice(first, last).join(" ")), " ");
    done = last;
  }
  parts.push(words.slice(done).join(" "));
  return parts;
}

// --- Charts ---------------------------------------------------------------------------------------

const STEP = { in: [0, 0, 0.6], out: [0, 0, 1 / 0.6], left: [-0.25, 0, 1], right: [0.25, 0, 1], up: [0, 0.25, 1], down: [0, -0.25, 1] };

// Moves what is in sight by shares of its width and height, and scales it. The ends of what is in sight are
// signals that Vega-Lite names after the parameter and the fields, which both are "x" and "y" or the scores.
function move(view, chart, how) {
  for (const [axis, share] of [["x", 0], ["y", 1]]) {
    const [low, high] = view.scale(axis).domain();
    const middle = (low + high) / 2 + (how === "reset" ? 0 : STEP[how][share] * (high - low));
    const half = how === "reset" ? 0 : ((high - low) / 2) * STEP[how][2];
    view.signal(`${chart.zoomed}_${chart.fields[share]}`, how === "reset" ? null : [middle - half, middle + half]);
  }
  return view.runAsync();
}

const LEGEND_PIXELS = 230; // of one name in a legend

function legendColumns(place) {
  return Math.max(1, Math.floor((place.clientWidth - 60) / LEGEND_PIXELS));
}

async function draw(name, chart) {
  const place = document.getElementById(`chart-${name}`);
  chart.spec.config.legend.columns = legendColumns(place);
  const { view } = await vegaEmbed(place, chart.spec, { actions: false, renderer: chart.renderer, defaultStyle: false, tooltip: { theme: "own", disableDefaultStyle: true } });
  for (const button of document.querySelectorAll(`[data-chart="${name}"] button`)) {
    button.addEventListener("click", () => move(view, chart, button.dataset.move));
  }
  return view;
}

function isInSight([name]) {
  return document.getElementById(`chart-${name}`).getBoundingClientRect().top < window.innerHeight;
}

// Those in sight first: then the page is ready. One after the other, so that the page can be used meanwhile.
async function drawAll() {
  const charts = Object.entries(read("chart-data"));
  const first = charts.filter(isInSight);
  const later = charts.filter((chart) => !first.includes(chart));
  window.views = {};
  await drawEach(first);
  document.documentElement.dataset.ready = "true";
  await drawEach(later);
  document.documentElement.dataset.drawn = "true";
}

async function drawEach(charts) {
  for (const [name, chart] of charts) {
    window.views[name] = await draw(name, chart);
    await new Promise((resolve) => setTimeout(resolve));
  }
}

const text = read("text-data");
if (text) showSentences(text);
drawAll();

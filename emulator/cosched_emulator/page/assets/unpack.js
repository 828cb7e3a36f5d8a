"use strict";
// Reads what schedule.py packs, and what all scripts of the page share: texts of times, colours, elements.

// The bytes of a compressed column.
async function inflate(text) {
    const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

// A column of whole numbers: byte planes of differences, in units of their greatest common divisor.
async function unpackNumbers({ count, unit, planes, data }) {
    const bytes = await inflate(data);
    const values = new Float64Array(count);
    for (let plane = 0, weight = 1; plane < planes; plane++, weight *= 256) {
        const base = plane * count;
        for (let i = 0; i < count; i++) values[i] += bytes[base + i] * weight;
    }
    let value = 0;
    for (let i = 0; i < count; i++) {
        const step = values[i];
        value += step % 2 ? -(step + 1) / 2 : step / 2;
        values[i] = value * unit;
    }
    return values;
}

async function unpackTexts(data) {
    return JSON.parse(new TextDecoder().decode(await inflate(data)));
}

// All columns of an object of columns.
async function unpackColumns(columns) {
    const names = Object.keys(columns);
    const values = await Promise.all(names.map((name) => unpackNumbers(columns[name])));
    return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

const [HOUR, DAY] = [3600, 86400];

// An instant or a span: h:mm:ss, from a day on 3 d h:mm:ss, as in the sentences of `explain`; below a minute in seconds.
function clock(seconds, parts = 3) {
    if (parts === 3 && Math.abs(seconds) < 60) return `${+seconds.toFixed(3)} s`;
    const whole = Math.round(Math.abs(seconds));
    const two = (number) => String(number).padStart(2, "0");
    const days = `${seconds < 0 ? "-" : ""}${whole >= DAY ? `${Math.floor(whole / DAY)} d ` : ""}`;
    const hours = `${days}${Math.floor(whole / HOUR) % 24}:${two(Math.floor(whole / 60) % 60)}`;
    return parts === 2 ? hours : `${hours}:${two(whole % 60)}`;
}

// The same beside an axis with a mark every `step` seconds: whole days and hours where the marks are so far apart.
function mark(second, step) {
    if (step < HOUR) return `${clock(second, step < 60 && second >= 60 ? 3 : 2)} h`;
    const parts = [[Math.floor(second / DAY), "d"], [Math.round((second % DAY) / HOUR), "h"]];
    return parts.filter(([number]) => number).map((words) => words.join(" ")).join(" ") || "0";
}

// A colour of the style, by the name of its variable.
function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A new element with attributes and children; texts become text, never HTML.
function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
        else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
}

// A table of the page's form: the first cell of a row names it.
function tableOf(headings, rows) {
    const head = element("tr", {}, ...headings.map((text) => element("th", { scope: "col" }, text)));
    const body = rows.map(([first, ...cells]) =>
        element("tr", {}, element("th", { scope: "row" }, first), ...cells.map((cell) => element("td", {}, cell))));
    return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

// An axis in the page's colours; `more` has what is special about it.
function axisOf(more) {
    return {
        stroke: () => colour("quiet"),
        font: "12px system-ui, sans-serif",
        labelFont: "12px system-ui, sans-serif",
        labelSize: 18,
        size: 34,
        grid: { stroke: () => colour("grid"), width: 1 },
        ticks: { stroke: () => colour("grid"), width: 1 },
        ...more,
    };
}

// Screen readers get the chart's own words and its table instead of these.
function hide_drawing(plot) {
    plot.root.querySelectorAll("canvas, .u-legend").forEach((part) => part.setAttribute("aria-hidden", "true"));
}

// Marks of a logarithmic axis of spans, far enough apart for their texts.
const SPANS = { "1 s": 1, "10 s": 10, "1 min": 60, "10 min": 600, "1 h": HOUR, "6 h": 6 * HOUR, "2 d": 2 * DAY, "20 d": 20 * DAY, "200 d": 200 * DAY };

function spanAxis(label) {
    const names = Object.fromEntries(Object.entries(SPANS).map(([name, seconds]) => [seconds, name]));
    const all = Object.values(SPANS);
    return axisOf({
        label,
        splits: ({ width, scales: { x } }) => all.filter((second, i) => second >= x.min && second <= x.max && (width > 340 || i % 2 === 0)),
        filter: (_, splits) => splits,
        values: (_, splits) => splits.map((second) => names[second]),
    });
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800];
for (const hours of [1, 2, 3, 6, 12, 24, 48, 120, 240, 480, 1200, 2400, 4800, 12000, 24000]) TIME_STEPS.push(hours * 3600);

function timeAxis() {
    return axisOf({
        incrs: TIME_STEPS,
        space: 70,
        label: "time since the first submission",
        values: (_, splits, __, ___, step) => splits.map((second) => mark(second, step)),
    });
}

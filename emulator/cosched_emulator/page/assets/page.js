"use strict";
// Draws the figures of the page, and paints them anew where the width, the colours or the paper change.

const charts = []; // for tests, too

async function draw_figures() {
    const figures = JSON.parse(document.getElementById("figures").textContent);
    const spans = { lines: span_of(figures.filter(({ time }) => time)), schedule: span_of(figures.filter(({ kind }) => kind === "schedule")) };
    const too_old = typeof DecompressionStream === "undefined";
    for (const [number, data] of figures.entries()) {
        const figure = document.getElementById(`figure-${number}`);
        if (too_old && data.kind === "schedule") {
            figure.querySelector(".chart").textContent = "This browser cannot unpack the chart (DecompressionStream).";
            continue;
        }
        const span = spans[data.kind];
        const chart = data.kind === "lines" ? new Lines(figure, data, span) : await Schedule.make(figure, data, span);
        charts.push(chart);
        watch_width(chart);
    }
    document.documentElement.dataset.drawn = "yes";
}

// The time that charts have in common: axes of two runs are of equal length.
function span_of(figures) {
    const ends = figures.map(({ x, begin_s, end_s }) => (x ? [x[0], 2 * x.at(-1) - (x.at(-2) ?? x.at(-1))] : [begin_s, end_s]));
    return [Math.min(...ends.map(([begin]) => begin)), Math.max(...ends.map(([, end]) => end))];
}

// When a chart over time shows another part, all others show that part, too.
let moving = false;
let together = [];
function move_together(leader, t0, t1) {
    const is_same = Math.abs(t0 - together[0]) + Math.abs(t1 - together[1]) <= 1e-9 * Math.abs(t1 - t0);
    if (moving || is_same || document.documentElement.dataset.drawn !== "yes") return;
    moving = true;
    together = [t0, t1];
    charts.forEach((chart) => chart !== leader && chart.show_times(t0, t1));
    moving = false;
}

function watch_width(chart) {
    const place = chart.area ?? chart.place;
    new ResizeObserver(() => {
        const width = Math.floor(place.clientWidth);
        const printing = document.documentElement.classList.contains("paper");
        if (width > 0 && width !== chart.plot.width && !printing) chart.resize(width);
    }).observe(place);
}

const repaint = () => charts.forEach((chart) => chart.repaint());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

// Paper is white and has a width of its own.
const PAPER_PX = 680;
addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    for (const chart of charts) {
        chart.resize(PAPER_PX);
        chart.repaint();
    }
});
addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    for (const chart of charts) {
        chart.resize(Math.floor((chart.area ?? chart.place).clientWidth));
        chart.repaint();
    }
});

draw_figures();

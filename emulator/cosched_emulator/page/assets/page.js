"use strict";
// Draws the figures of the page, and paints them anew where the width, the colours or the paper change.

const charts = []; // for tests, too

async function draw_figures() {
    const figures = JSON.parse(document.getElementById("figures").textContent);
    const too_old = typeof DecompressionStream === "undefined";
    for (const [number, data] of figures.entries()) {
        const figure = document.getElementById(`figure-${number}`);
        if (too_old && data.kind === "schedule") {
            figure.querySelector(".chart").textContent = "This browser cannot unpack the chart (DecompressionStream).";
            continue;
        }
        const chart = data.kind === "lines" ? new Lines(figure, data) : await Schedule.make(figure, data);
        charts.push(chart);
        watch_width(chart);
    }
    document.documentElement.dataset.drawn = "yes";
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

"use strict";
// Lines over time, or over values: `data` has x, the series with their names and values, and texts of the axes.

const LINE_COLOURS = ["blue", "orange", "green", "pink", "sky", "red", "brown", "grey"];
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];

class Lines {
    // Over time the chart begins and ends with `span`, as all others do.
    constructor(figure, data, span) {
        this.data = data;
        this.span = span;
        this.place = figure.querySelector(".chart");
        this.place.replaceChildren();
        const series = data.series.map(({ name }, i) => ({
            label: name,
            stroke: () => colour(LINE_COLOURS[i % LINE_COLOURS.length]),
            dash: DASHES[i % DASHES.length],
            width: 1.6,
            points: { show: data.dots, size: 6, fill: () => colour(LINE_COLOURS[i % LINE_COLOURS.length]) },
            paths: data.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
            value: (_, value) => this.text(value),
        }));
        const bands = data.series.flatMap(({ low, high }, i) => (low ? [[i, low, high]] : []));
        const bounds = bands.flatMap(([i]) => [{ of: i }, { of: i }]).map(() => ({
            width: 0, points: { show: false }, label: "interval", class: "bound", value: (_, value) => this.text(value),
        }));
        const first = series.length + 1;
        this.plot = new uPlot({
            width: this.place.clientWidth || 600,
            height: 240,
            scales: { x: { time: false, distr: data.logarithmic ? 3 : 1, range: (_, low, high) => this.times(low, high) }, y: { range: (_, low, high) => this.range(low, high) } },
            axes: [
                data.time ? timeAxis() : data.spans ? spanAxis(data.x_label) : axisOf({ label: data.x_label, space: 60 }),
                axisOf({ label: data.y_label, size: 56, labelSize: 20 }),
            ],
            series: [{ label: data.x_name, value: (_, value) => this.place_text(value) }, ...series, ...bounds],
            bands: bands.map(([i], k) => ({
                series: [first + 2 * k + 1, first + 2 * k], fill: () => `${colour(LINE_COLOURS[i % LINE_COLOURS.length])}33`,
            })),
            padding: [8, 24, 0, 0],
            cursor: { points: { size: 6 } },
            hooks: { setScale: [({ scales: { x } }, key) => data.time && key === "x" && move_together(this, x.min, x.max)] },
        }, [data.x, ...data.series.map(({ values }) => values), ...bands.flatMap(([, low, high]) => [low, high])], this.place);
        hide_drawing(this.plot);
        this.listen(figure);
    }

    times(low, high) {
        const { time, x } = this.data;
        return time && low === x[0] && high === x.at(-1) ? this.span : [low, high];
    }

    show_times(t0, t1) {
        if (this.data.time) this.plot.setScale("x", { min: t0, max: t1 });
    }

    range(low, high) {
        if (this.data.top !== null) return [0, this.data.top];
        if (low === null) return [0, 1];
        const floor = this.data.from_zero ? 0 : low;
        return [floor, high > floor ? high + 0.05 * (high - floor) : floor + 1];
    }

    text(value) {
        return value === null || value === undefined ? "–" : `${+value.toPrecision(4)}${this.data.unit}`;
    }

    place_text(value) {
        if (value === null || value === undefined) return "–";
        return this.data.time || this.data.spans ? clock(value) : String(+value.toPrecision(4));
    }

    // Arrows move along the line, and say its values.
    listen(figure) {
        const said = element("p", { class: "said", "aria-live": "polite" });
        this.place.after(said);
        const names = this.data.series.map(({ name }) => name).join(", ");
        this.place.setAttribute("tabindex", "0");
        this.place.setAttribute("role", "application");
        this.place.setAttribute("aria-label", `${this.data.title}: ${names}. Left and right arrow read values; its table follows.`);
        this.place.addEventListener("keydown", (event) => {
            const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
            if (!step) return;
            event.preventDefault();
            const last = this.data.x.length - 1;
            this.at = Math.min(last, Math.max(0, (this.at ?? (step > 0 ? -1 : last + 1)) + step));
            this.plot.setCursor({ left: this.plot.valToPos(this.data.x[this.at], "x"), top: 0 });
            const values = this.data.series.map(({ name, values }) => `${name} ${this.text(values[this.at])}`);
            said.textContent = `${this.data.x_name} ${this.place_text(this.data.x[this.at])}: ${values.join(", ")}`;
        });
        const details = figure.querySelector("details.numbers");
        details.addEventListener("toggle", () => {
            if (!details.open || details.querySelector("table")) return;
            const headings = [this.data.x_name];
            for (const { name, low } of this.data.series) headings.push(name, ...(low ? ["low", "high"] : []));
            const rows = Array.from(this.data.x, (x, i) => [
                this.place_text(x),
                ...this.data.series.flatMap(({ values, low, high }) => (low ? [values, low, high] : [values]).map((column) => this.text(column[i]))),
            ]);
            details.append(element("div", { class: "wide tall", tabindex: "0", role: "group", "aria-label": this.data.title }, tableOf(headings, rows)));
        });
    }

    resize(width) {
        this.plot.setSize({ width, height: 240 });
    }

    repaint() {
        this.plot.redraw(false, true); // redraw() would range the axes anew; without `true` a new width is forgotten
    }
}

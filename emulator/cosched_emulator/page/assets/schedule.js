"use strict";
// The Gantt chart: who is on which node, and when. uPlot draws the axes, `paint` fills the pixels.
//
// A pixel shows what is at its centre: on how many jobs' nodes it lies decides its hue, which jobs these are its shade. So
// no row has to be split where neighbours come and go. What is narrower than a pixel and misses its centre is shown where
// nothing else is. A node's height is divided among its hardware threads as soon as there is room (`bands`).

const HUES = ["one", "two", "three"];
const SHADES = 3;
const MOST_BANDS = 16; // of a node
const BAND_PX = 6;
const STEP = 0.15; // of the view, by an arrow key

class Schedule {
    static async make(figure, data, span) {
        const [jobs, boxes] = await Promise.all([unpackColumns(data.jobs), unpackColumns(data.boxes)]);
        for (const name of ["submit", "start", "end", "wall", "work"]) jobs[name] = jobs[name].map((ms) => ms / 1000);
        boxes.start = boxes.start.map((ms) => ms / 1000);
        boxes.end = boxes.length.map((ms, i) => boxes.start[i] + ms / 1000);
        return new Schedule(figure, data, span, jobs, boxes, await unpackCounted(data), await unpackFacts(data));
    }

    constructor(figure, data, [begin_s, end_s], jobs, boxes, counted, facts) {
        this.data = data;
        this.counted = counted;
        this.facts = facts;
        this.shown = null; // the countable resource that the colours show; null: the number of jobs
        this.jobs = jobs;
        this.boxes = boxes;
        this.selected = -1;
        this.frames = 0;
        this.all = { t0: begin_s, t1: end_s, n0: 0, n1: data.nodes };
        this.view = { ...this.all };
        this.index();
        this.place = figure.querySelector(".chart");
        this.place.replaceChildren();
        this.build();
        this.paint_colours();
        const details = figure.querySelector("details.numbers");
        details.addEventListener("toggle", () => details.open && this.show_table(details));
    }

    // Which boxes a job has, the jobs in order of their starts, and the threads of each mask.
    index() {
        const { job } = this.boxes;
        const count = this.jobs.id.length;
        this.first_box = new Uint32Array(count + 1);
        for (const each of job) this.first_box[each + 1]++;
        for (let i = 0; i < count; i++) this.first_box[i + 1] += this.first_box[i];
        const next = this.first_box.slice();
        this.box_of_job = new Uint32Array(job.length);
        for (let i = 0; i < job.length; i++) this.box_of_job[next[job[i]]++] = i;
        this.order = Uint32Array.from({ length: count }, (_, i) => i);
        this.order.sort((a, b) => this.jobs.start[a] - this.jobs.start[b] || this.jobs.id[a] - this.jobs.id[b]);
        this.rank = new Uint32Array(count);
        this.order.forEach((each, place) => (this.rank[each] = place));
        this.threads_of = Uint16Array.from(this.data.classes.flatMap(([nodes, threads]) => Array(nodes).fill(threads)));
        this.most_threads = Math.max(...this.threads_of);
        this.masks = this.data.masks.map((text) => {
            const mask = BigInt(text);
            return Array.from({ length: this.most_threads }, (_, thread) => Boolean((mask >> BigInt(thread)) & 1n));
        });
        this.bands_of_masks = new Map();
    }

    // Whether each mask has a thread in each of `bands` equal parts of a node with this many threads.
    in_bands(bands, threads) {
        const key = bands * 65536 + threads;
        if (!this.bands_of_masks.has(key)) {
            this.bands_of_masks.set(key, this.masks.map((held) => {
                const found = new Uint8Array(bands);
                for (let thread = 0; thread < threads; thread++) {
                    const last = Math.ceil(((thread + 1) * bands) / threads);
                    if (held[thread]) found.fill(1, Math.floor((thread * bands) / threads), last);
                }
                return found;
            }));
        }
        return this.bands_of_masks.get(key);
    }

    build() {
        const { data } = this;
        const help = `help-${this.place.parentElement.id}`;
        this.area = element("div", {
            class: "area", tabindex: "0", role: "application", "aria-label": `Gantt chart: ${data.title}`, "aria-describedby": help,
        });
        this.said = element("p", { class: "said", "aria-live": "polite" });
        this.tip = element("div", { class: "tip", "aria-hidden": "true", hidden: "" });
        const button = (text, label, act) => element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
        this.place.append(
            element("div", { class: "buttons", role: "group", "aria-label": `Controls of ${data.title}` },
                button("+", "Zoom in", () => this.zoom(0.5)),
                button("−", "Zoom out", () => this.zoom(2)),
                button("←", "Earlier", () => this.move(-STEP, 0)),
                button("→", "Later", () => this.move(STEP, 0)),
                button("All", "All: show everything", () => this.set_view(this.all)),
                button("‹ Job", "Previous job", () => this.step(-1)),
                button("Job ›", "Next job", () => this.step(1)),
                ...shadeChoice(this),
                this.legend()),
            this.area, this.said,
            element("p", { class: "quiet", id: help },
                "Arrow keys move, + and − zoom, 0 shows everything, N and P go to the next and the previous job, Enter zooms to it. "
                + "Drag to move; drag with Shift to zoom; the wheel zooms while the chart has the focus."));
        this.area.append(this.tip);
        this.plot = new uPlot({
            width: this.area.clientWidth || 600,
            height: this.height(),
            legend: { show: false },
            cursor: { drag: { x: false, y: false, setScale: false }, points: { show: false }, x: true, y: true },
            scales: {
                x: { time: false, auto: false, range: () => [this.view.t0, this.view.t1] },
                y: { auto: false, range: () => [this.view.n0, this.view.n1] },
            },
            axes: [timeAxis(), axisOf({ label: "node", size: 52, incrs: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], grid: { show: false } })],
            series: [{}, {}],
            padding: [null, data.partitions.length ? ({ width }) => (width > NARROW_PX ? PARTITION_PX + 12 : 12) : null, null, null],
            hooks: { drawClear: [() => this.paint()], draw: [() => drawPartitions(this), () => this.outline()], setCursor: [() => this.hover()] },
        }, [[this.all.t0, this.all.t1], [null, null]], this.area);
        hide_drawing(this.plot);
        this.listen();
    }

    legend() {
        const names = this.shown
            ? [`up to a quarter of a node's ${this.shown.name}`, "half", "three quarters", "all"]
            : ["1 job on the node", "2 jobs", "3 or more"].slice(0, this.data.deepest);
        const keys = this.shown ? LEVELS : HUES;
        return element("span", { class: "legend" }, ...names.map((name, i) =>
            element("span", {}, element("span", { class: `key ${keys[i]}` }), name)),
        ...(this.shown ? [] : [element("span", { class: "quiet" }, "lighter or darker: another job")]));
    }

    // Let the colours show a countable resource, on the nodes from the first to the last that have it, or null: the jobs.
    shade(resource) {
        this.shown = resource;
        this.place.querySelector(".buttons .legend").replaceWith(this.legend());
        const has = resource ? Array.from(resource.of_node, Boolean) : [];
        this.set_view({ ...this.view, n0: Math.max(0, has.indexOf(true)), n1: has.lastIndexOf(true) + 1 || this.data.nodes });
    }

    height() {
        return Math.max(220, Math.min(520, 70 + 14 * this.data.nodes));
    }

    // ---- the view: times t0 to t1 in seconds, nodes n0 to n1

    set_view({ t0, t1, n0, n1 }) {
        const { all } = this;
        const time = Math.min(all.t1 - all.t0, Math.max(t1 - t0, 0.05));
        const nodes = Math.min(all.n1, Math.max(n1 - n0, Math.min(1, all.n1)));
        const begin = Math.min(Math.max(t0, all.t0), all.t1 - time);
        const low = Math.min(Math.max(n0, 0), all.n1 - nodes);
        const is_new = begin !== this.view.t0 || begin + time !== this.view.t1;
        this.view = { t0: begin, t1: begin + time, n0: low, n1: low + nodes };
        if (is_new) move_together(this, begin, begin + time);
        if (this.waiting) return;
        this.waiting = true;
        requestAnimationFrame(() => {
            this.waiting = false;
            this.plot.batch(() => {
                this.plot.setScale("x", { min: this.view.t0, max: this.view.t1 });
                this.plot.setScale("y", { min: this.view.n0, max: this.view.n1 });
            });
        });
    }

    show_times(t0, t1) {
        this.set_view({ ...this.view, t0, t1 });
    }

    // Change the span of the view by a factor; the instant and the node at these shares of it stay where they are.
    zoom(factor, at = this.share_of_selected(), node_factor = 1, node_at = 0.5) {
        const { t0, t1, n0, n1 } = this.view;
        const time = t0 + at * (t1 - t0);
        const node = n0 + node_at * (n1 - n0);
        this.set_view({
            t0: time - (time - t0) * factor, t1: time + (t1 - time) * factor,
            n0: node - (node - n0) * node_factor, n1: node + (n1 - node) * node_factor,
        });
    }

    share_of_selected() {
        const share = (this.jobs.start[this.selected] - this.view.t0) / (this.view.t1 - this.view.t0);
        return share >= 0 && share <= 1 ? share : 0.5;
    }

    move(times, nodes) {
        const { t0, t1, n0, n1 } = this.view;
        const [by_time, by_node] = [times * (t1 - t0), nodes * (n1 - n0)];
        this.set_view({ t0: t0 + by_time, t1: t1 + by_time, n0: n0 + by_node, n1: n1 + by_node });
    }

    repaint() {
        this.paint_colours();
        this.plot.redraw(false, true); // as in lines.js
    }

    resize(width) {
        this.plot.setSize({ width: width, height: this.height() });
    }

    // ---- painting

    paint_colours() {
        const probe = document.createElement("canvas").getContext("2d");
        const pixel = (text) => {
            probe.fillStyle = text;
            const number = parseInt(probe.fillStyle.slice(1), 16);
            return ((255 << 24) | ((number & 255) << 16) | (number & 0xff00) | (number >> 16)) >>> 0;
        };
        this.empty = pixel(colour("free"));
        this.edge = pixel(colour("edge"));
        this.fills = HUES.flatMap((hue) => ["", "-b", "-c"].map((shade) => pixel(colour(hue + shade))));
        this.levels = LEVELS.map((level) => pixel(colour(level)));
        this.without = pixel(colour("grid"));
    }

    // The rows of pixels that show the same part of a node: `node`, `band` within it, and the rows from `top` on.
    rows(height) {
        const { n0, n1 } = this.view;
        const node_px = height / (n1 - n0);
        const bands = this.shown ? 1 : Math.max(1, Math.min(this.most_threads, MOST_BANDS, Math.floor(node_px / BAND_PX)));
        const found = { bands, node_px, node: [], band: [], top: [] };
        let last = -1;
        for (let row = 0; row < height; row++) {
            const node = Math.min(Math.max(n1 - ((row + 0.5) / height) * (n1 - n0), 0), this.data.nodes - 1e-9);
            const key = Math.floor(node * bands);
            if (key !== last) {
                found.node.push(Math.floor(node));
                found.band.push(key - Math.floor(node) * bands);
                found.top.push(row);
                last = key;
            }
        }
        found.top.push(height);
        return found;
    }

    paint() {
        const { left, top, width, height } = this.plot.bbox;
        const [w, h] = [Math.round(width), Math.round(height)];
        if (w < 1 || h < 1) return;
        const rows = this.rows(h);
        const count = rows.node.length;
        if (!this.image || this.image.width !== w || this.image.height !== h) {
            this.image = new ImageData(w, h);
            this.pixels = new Uint32Array(this.image.data.buffer);
        }
        const cells = count * (w + 1);
        if (!this.depth || this.depth.length < cells) {
            this.depth = new Int32Array(cells); // change of the number of jobs from one column to the next
            this.mix = new Int32Array(cells); // likewise of the sum of their numbers, which tells jobs apart
            this.thin = new Uint8Array(cells);
        }
        this.depth.fill(0, 0, cells);
        this.mix.fill(0, 0, cells);
        this.thin.fill(0, 0, cells);
        const drawn = this.count(rows, w);
        if (this.shown) fillTaken(this, rows, w);
        else this.fill(rows, w, drawn * 10 < count * w);
        this.plot.ctx.putImageData(this.image, Math.round(left), Math.round(top));
        this.frames++;
    }

    // Enter the boxes that can be seen into `depth`, `mix` and `thin`; return how many rows of boxes these are.
    count(rows, w) {
        const { boxes, depth, mix, thin } = this;
        const { job, start, end, first, count, mask } = boxes;
        const { t0, t1, n0, n1 } = this.view;
        const [low, high] = [Math.floor(n0), Math.min(this.data.nodes, Math.ceil(n1))];
        const last_row = new Int32Array(high - low + 1); // of rows of nodes from a node on: the first that is below it
        for (let node = low, row = rows.node.length; node <= high; node++) {
            while (row > 0 && rows.node[row - 1] < node) row--;
            last_row[node - low] = row;
        }
        // Rows go down from high nodes to low ones: those of nodes a to b - 1 are from last_row[b] to last_row[a] - 1.
        const per_s = w / (t1 - t0);
        const stride = w + 1;
        const held = rows.bands > 1 ? rows.node.map((node) => this.in_bands(rows.bands, this.threads_of[node])) : null;
        let drawn = 0;
        for (let i = 0; i < job.length; i++) {
            if (start[i] >= t1 || end[i] < t0) continue;
            const lowest = Math.max(first[i], low);
            const highest = Math.min(first[i] + count[i], high);
            if (lowest >= highest) continue;
            let row = last_row[highest - low];
            let until = last_row[lowest - low];
            const x0 = Math.max(0, Math.ceil((start[i] - t0) * per_s - 0.5));
            const x1 = Math.min(w, Math.ceil((end[i] - t0) * per_s - 0.5));
            const is_thin = x0 >= x1 || row >= until;
            if (row >= until) [row, until] = [Math.max(0, until - 1), Math.max(1, until)]; // between two rows
            const x = Math.min(w - 1, Math.max(0, Math.floor((start[i] - t0) * per_s)));
            const number = this.shown ? this.shown.amounts[job[i]] : job[i] + 1;
            if (number === 0) continue;
            drawn += until - row;
            for (; row < until; row++) {
                const base = row * stride;
                const here = held === null || held[row][mask[i]][rows.band[row]];
                if (is_thin) {
                    if (here) thin.fill(1, base + x, base + Math.max(x + 1, Math.min(w, x1)));
                    continue;
                }
                depth[base + x0]++;
                depth[base + x1]--;
                if (here) {
                    mix[base + x0] += number;
                    mix[base + x1] -= number;
                }
            }
        }
        return drawn;
    }

    // Colour the pixels; `edges`: there is room for lines between jobs.
    fill(rows, w, edges) {
        const { depth, mix, thin, pixels, fills, empty, edge } = this;
        const gap = rows.node_px >= 5;
        for (let row = 0, base = 0; row < rows.node.length; row++, base += w + 1) {
            const to = rows.top[row] * w;
            let [deep, sum] = [0, 0];
            for (let x = 0; x < w; x++) {
                const change = mix[base + x];
                deep += depth[base + x];
                sum += change;
                if (sum === 0) pixels[to + x] = thin[base + x] ? fills[1] : empty;
                else if (edges && change !== 0 && x > 0) pixels[to + x] = edge;
                else pixels[to + x] = fills[(deep < 3 ? deep - 1 : 2) * SHADES + (sum % SHADES)];
            }
            for (let next = rows.top[row] + 1; next < rows.top[row + 1]; next++) pixels.copyWithin(next * w, to, to + w);
            if (gap && rows.band[row] === 0) pixels.fill(empty, (rows.top[row + 1] - 1) * w, rows.top[row + 1] * w);
        }
    }

    // A frame around the selected job.
    outline() {
        if (this.selected < 0) return;
        const { ctx, bbox } = this.plot;
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
        ctx.clip();
        ctx.strokeStyle = colour("ink");
        ctx.lineWidth = 2 * devicePixelRatio;
        for (let k = this.first_box[this.selected]; k < this.first_box[this.selected + 1]; k++) {
            const i = this.box_of_job[k];
            const [x0, x1] = [this.boxes.start[i], this.boxes.end[i]].map((time) => this.plot.valToPos(time, "x", true));
            const [y0, y1] = [this.boxes.first[i], this.boxes.first[i] + this.boxes.count[i]].map((node) => this.plot.valToPos(node, "y", true));
            ctx.strokeRect(x0, y1, Math.max(1, x1 - x0), y0 - y1);
        }
        ctx.restore();
    }

    // ---- jobs: at a point, beside another one, in words

    jobs_at(x, y) {
        const { boxes, plot } = this;
        const [early, late] = [plot.posToVal(x - 1, "x"), plot.posToVal(x + 1, "x")];
        const node = plot.posToVal(y, "y");
        const whole = Math.floor(node);
        const threads = this.threads_of[Math.min(Math.max(whole, 0), this.data.nodes - 1)];
        const thread = Math.floor((node - whole) * threads);
        const is_split = plot.bbox.height / (this.view.n1 - this.view.n0) / BAND_PX >= threads;
        const found = new Set();
        for (let i = 0; i < boxes.job.length; i++) {
            if (boxes.start[i] > late || boxes.end[i] < early || boxes.first[i] > whole || boxes.first[i] + boxes.count[i] <= whole) continue;
            if (!is_split || this.masks[boxes.mask[i]][thread]) found.add(boxes.job[i]);
        }
        return [...found];
    }

    partners(job) {
        const { boxes } = this;
        const found = new Set();
        for (let k = this.first_box[job]; k < this.first_box[job + 1]; k++) {
            const mine = this.box_of_job[k];
            const [start, end] = [boxes.start[mine], boxes.end[mine]];
            const [low, high] = [boxes.first[mine], boxes.first[mine] + boxes.count[mine]];
            for (let i = 0; i < boxes.job.length && boxes.start[i] < end; i++) {
                if (boxes.end[i] > start && boxes.first[i] < high && boxes.first[i] + boxes.count[i] > low) found.add(boxes.job[i]);
            }
        }
        found.delete(job);
        return [...found].sort((a, b) => a - b);
    }

    nodes_of(job) {
        const nodes = [];
        const last_start = Math.max(...Array.from(this.own_boxes(job), (i) => this.boxes.start[i]));
        for (const i of this.own_boxes(job)) {
            if (this.boxes.start[i] !== last_start) continue;
            nodes.push([this.boxes.first[i], this.boxes.first[i] + this.boxes.count[i] - 1]);
        }
        nodes.sort((a, b) => a[0] - b[0]);
        const texts = nodes.map(([low, high]) => (low === high ? `${low}` : `${low}-${high}`));
        const shown = texts.length > 8 ? [...texts.slice(0, 8), `and ${texts.length - 8} more runs of nodes`] : texts;
        return `${nodes.length === 1 && nodes[0][0] === nodes[0][1] ? "node" : "nodes"} ${shown.join(", ")}`;
    }

    own_boxes(job) {
        return this.box_of_job.subarray(this.first_box[job], this.first_box[job + 1]);
    }

    slowdown(job) {
        const { wall, work } = this.jobs;
        return work[job] > 0 && this.state(job) === "COMPLETED" ? wall[job] / work[job] : null;
    }

    state(job) {
        return this.data.states[this.jobs.state[job]];
    }

    user(job) {
        return this.data.users[this.jobs.user[job]];
    }

    // The job's sentence: who, when, with whom, at what slowdown.
    sentence(job) {
        const { jobs } = this;
        const user = this.user(job);
        const name = this.data.names?.[job];
        const who = `Job ${jobs.id[job]}${name ? ` “${name}”` : ""}${user ? ` of user ${user}` : ""}`;
        const threads = jobs.threads[job] === 1 ? "1 hardware thread" : `${jobs.threads[job]} hardware threads`;
        const waited = jobs.start[job] - jobs.submit[job];
        const begin = `${who}${groupsText(this.facts, job)} asked for ${threads}${askedText(this.facts, job)}. It was submitted at ${clock(jobs.submit[job], 3)} and started ${waited > 0 ? `${clock(waited)} later` : "at once"}`;
        const ended = jobs.end[job] < 0 ? "and has not ended" : `and ended at ${clock(jobs.end[job], 3)} as ${this.state(job)}`;
        const slow = this.slowdown(job);
        const beside = this.partners(job).map((other) => jobs.id[other]);
        const others = beside.length > 6 ? `${beside.slice(0, 6).join(", ")} and ${beside.length - 6} more` : beside.join(", ");
        const company = beside.length ? `beside job${beside.length > 1 ? "s" : ""} ${others}` : "alone";
        const rate = slow === null ? "" : ` It took ${slow.toFixed(3)} times as long as alone.`;
        return `${begin}, at ${clock(jobs.start[job], 3)}, on ${this.nodes_of(job)}, ${company}, ${ended}.${rate}`;
    }

    async reason(job) {
        if (!this.data.reasons) return "";
        this.reasons ??= await unpackTexts(this.data.reasons);
        return this.reasons[job];
    }

    // ---- keys, pointer, table

    async select(job, look = false) {
        this.selected = job;
        if (job < 0) this.said.textContent = "";
        else {
            const { t0, t1 } = this.view;
            const [start, end] = [this.jobs.start[job], Math.max(this.jobs.end[job], this.jobs.start[job])];
            if (look) this.set_view({ ...this.view, t0: start - (end - start) - 1, t1: end + (end - start) + 1 });
            else if (end < t0 || start > t1) this.set_view({ ...this.view, t0: start - (t1 - t0) / 2, t1: start + (t1 - t0) / 2 });
            const sentence = this.sentence(job);
            const reason = await this.reason(job);
            if (this.selected === job) this.said.textContent = reason ? `${sentence} ${reason}` : sentence;
        }
        this.set_view(this.view);
    }

    step(by) {
        const { order, jobs } = this;
        if (!order.length) return;
        const first = order.findIndex((job) => jobs.start[job] >= this.view.t0);
        const place = this.selected < 0 ? Math.max(first, 0) : this.rank[this.selected] + by;
        this.select(order[Math.min(order.length - 1, Math.max(0, place))]);
    }

    async hover() {
        const { left, top } = this.plot.cursor;
        const found = left >= 0 && !this.dragging ? this.jobs_at(left, top) : [];
        const node = Math.min(Math.max(Math.floor(this.plot.posToVal(top, "y")), 0), this.data.nodes - 1);
        const about = found.length ? nodeText(this, node, this.plot.posToVal(left, "x")) : "";
        const key = `${found.join()} ${about}`;
        this.tip.hidden = !found.length;
        if (!found.length) return (this.hovered = "");
        this.place_tip(left, top);
        if (key === this.hovered) return;
        this.hovered = key;
        const texts = await Promise.all(found.slice(0, 3).map(async (job) => [this.sentence(job), await this.reason(job)]));
        if (key !== this.hovered) return;
        const parts = texts.map(([sentence, reason]) => element("p", {}, sentence, ...(reason ? [element("em", {}, ` ${reason}`)] : [])));
        if (about) parts.unshift(element("p", {}, about));
        if (found.length > 3) parts.push(element("p", {}, `and ${found.length - 3} more jobs here`));
        this.tip.replaceChildren(...parts);
        this.place_tip(left, top);
    }

    place_tip(left, top) {
        const box = this.plot.over.getBoundingClientRect();
        const area = this.area.getBoundingClientRect();
        const x = left + box.left - area.left;
        this.tip.style.left = `${Math.max(0, Math.min(x + 14, area.width - this.tip.offsetWidth - 4))}px`;
        this.tip.style.top = `${top + box.top - area.top + 18}px`;
    }

    listen() {
        const { area, plot } = this;
        const keys = {
            ArrowLeft: () => this.move(-STEP, 0), ArrowRight: () => this.move(STEP, 0),
            ArrowUp: () => this.move(0, STEP), ArrowDown: () => this.move(0, -STEP),
            "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "−": () => this.zoom(2),
            0: () => this.set_view(this.all), n: () => this.step(1), p: () => this.step(-1),
            Enter: () => this.selected >= 0 && this.select(this.selected, true), Escape: () => this.select(-1),
        };
        area.addEventListener("keydown", (event) => {
            const act = keys[event.key] ?? keys[event.key.toLowerCase()];
            if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
            event.preventDefault();
            act();
        });
        const over = plot.over;
        over.addEventListener("wheel", (event) => {
            if (!area.contains(document.activeElement)) return;
            event.preventDefault();
            const box = over.getBoundingClientRect();
            const factor = 2 ** (Math.sign(event.deltaY) * 0.4);
            const [at, node_at] = [(event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height];
            this.zoom(factor, at, event.shiftKey ? factor : 1, node_at);
        }, { passive: false });
        over.addEventListener("dblclick", () => this.set_view(this.all));
        over.addEventListener("pointerdown", (event) => this.drag(event));
    }

    // Move the view with the pointer, or zoom to what it marks (Shift); without a movement select the job there.
    drag(down) {
        if (down.button !== 0) return;
        const over = this.plot.over;
        const box = over.getBoundingClientRect();
        const { t0, t1, n0, n1 } = this.view;
        const [x, y] = [down.clientX - box.left, down.clientY - box.top];
        over.setPointerCapture(down.pointerId);
        const shares = (event) => [(event.clientX - box.left - x) / box.width, (event.clientY - box.top - y) / box.height];
        const on_move = (event) => {
            const [times, nodes] = shares(event);
            if (Math.hypot(times * box.width, nodes * box.height) > 4) this.dragging = true;
            if (!this.dragging) return;
            if (down.shiftKey) {
                const select = { left: Math.min(x, x + times * box.width), width: Math.abs(times * box.width), top: 0, height: box.height };
                this.plot.setSelect(select, false);
            } else {
                const [by_time, by_node] = [times * (t1 - t0), nodes * (n1 - n0)];
                this.set_view({ t0: t0 - by_time, t1: t1 - by_time, n0: n0 + by_node, n1: n1 + by_node });
            }
        };
        const on_up = (event) => {
            over.removeEventListener("pointermove", on_move);
            if (!this.dragging) this.select(this.jobs_at(x, y)[0] ?? -1);
            else if (down.shiftKey) {
                const ends = [x / box.width, x / box.width + shares(event)[0]].map((share) => t0 + share * (t1 - t0)).sort((a, b) => a - b);
                this.plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
                this.set_view({ t0: ends[0], t1: ends[1], n0, n1 });
            }
            this.dragging = false;
        };
        over.addEventListener("pointermove", on_move);
        over.addEventListener("pointerup", on_up, { once: true });
    }

    // The table of the chart: the jobs in order of their starts, some at a time.
    show_table(details, from = 0) {
        const SHOWN = 50;
        const { order, jobs } = this;
        const told = Object.keys(this.facts);
        details.querySelector(".jobs")?.remove();
        const rows = Array.from(order.slice(from, from + SHOWN), (job) => {
            const slow = this.slowdown(job);
            const to_chart = element("button", { type: "button", onclick: () => { this.area.focus(); this.select(job); } }, String(jobs.id[job]));
            return [to_chart, this.user(job) || "–", ...told.map((name) => this.facts[name](job) || "–"), String(jobs.threads[job]), this.nodes_of(job).replace(/^nodes? /, ""), clock(jobs.submit[job], 3),
                clock(jobs.start[job], 3), jobs.end[job] < 0 ? "–" : clock(jobs.end[job], 3), slow === null ? "–" : slow.toFixed(3),
                this.partners(job).map((other) => jobs.id[other]).slice(0, 6).join(" ") || "–", this.state(job)];
        });
        const pager = (text, to, place) => element("button", {
            type: "button",
            ...(to < 0 || to >= order.length ? { disabled: "" } : {}),
            onclick: () => {
                this.show_table(details, to);
                const pagers = details.querySelectorAll(".jobs p button"); // new ones: the focus goes on to the same
                (pagers[place].disabled ? pagers[1 - place] : pagers[place]).focus();
            },
        }, text);
        const table = tableOf(["job", "user", ...told, "threads", "nodes", "submitted", "started", "ended", "slowdown", "beside jobs", "state"], rows);
        details.append(element("div", { class: "jobs" },
            element("p", {}, pager("‹ earlier", from - SHOWN, 0), ` jobs ${from + 1} to ${Math.min(order.length, from + SHOWN)} of ${order.length} `, pager("later ›", from + SHOWN, 1)),
            element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": `Jobs of ${this.data.title}` }, table)));
    }
}

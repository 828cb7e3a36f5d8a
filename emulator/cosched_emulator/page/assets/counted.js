"use strict";
// What the Gantt chart knows of nodes beside their threads: their partitions, and what they have that is counted, such as GPUs.

const LEVELS = ["taken-1", "taken-2", "taken-3", "taken-4"]; // quarters of what a node has
const LABEL_PX = 14; // height of a label beside the rows

// Each countable resource: how much of it each node has, and each job takes on each of its nodes.
function unpackCounted({ counted }) {
    return Promise.all(counted.map(async ({ name, classes, amounts }) => ({
        name,
        of_node: Uint32Array.from(classes.flatMap(([nodes, amount]) => Array(nodes).fill(amount))),
        amounts: await unpackNumbers(amounts),
    })));
}

// What users say of their jobs, by the name of the fact: a text of each job.
async function unpackFacts({ facts }) {
    const found = await Promise.all(facts.map(async ({ name, values, places }) => {
        const of_job = await unpackNumbers(places);
        return [name, (job) => values[of_job[job]]];
    }));
    return Object.fromEntries(found);
}

// The partition, QOS and account of a job, as a part of its sentence.
function groupsText(facts, job) {
    const named = [["partition", "in partition"], ["qos", "with QOS"], ["account", "for account"]];
    const texts = named.map(([name, words]) => [words, facts[name]?.(job)]).filter(([, value]) => value);
    return texts.length ? `, ${texts.map((words) => words.join(" ")).join(", ")},` : "";
}

// What a job asks for that is counted, likewise.
function askedText(facts, job) {
    const [resources, licences] = [facts.resources?.(job), facts.licences?.(job)];
    return (resources ? `, and on each node for ${resources.replaceAll(";", ", ")}` : "")
        + (licences ? `, and for licences ${licences.replaceAll(";", ", ")}` : "");
}

// The partitions of a node, and how much of what it has is taken at a time; empty where it has neither.
function nodeText(schedule, node, time) {
    const { data, boxes, counted } = schedule;
    const its = data.partitions.find(([first, count]) => first <= node && node < first + count)?.[2];
    const has = counted.filter(({ of_node }) => of_node[node]);
    const taken = has.map(() => 0);
    for (let i = 0; has.length && i < boxes.job.length; i++) {
        if (boxes.start[i] > time || boxes.end[i] <= time || boxes.first[i] > node || boxes.first[i] + boxes.count[i] <= node) continue;
        has.forEach(({ amounts }, k) => (taken[k] += amounts[boxes.job[i]]));
    }
    const parts = has.map(({ name, of_node }, k) => `${taken[k]} of ${of_node[node]} ${name} taken`);
    if (its) parts.unshift(`in ${its}`);
    return parts.length ? `Node ${node}: ${parts.join(", ")}.` : "";
}

// Colour the pixels by the share that is taken of each node's; nodes without it are grey.
function fillTaken(schedule, rows, w) {
    const { mix, thin, pixels, empty, without, levels, shown: { of_node } } = schedule;
    for (let row = 0, base = 0; row < rows.node.length; row++, base += w + 1) {
        const to = rows.top[row] * w;
        const most = of_node[rows.node[row]];
        let taken = 0;
        for (let x = 0; x < w; x++) {
            taken += mix[base + x];
            const level = Math.min(LEVELS.length, Math.ceil((LEVELS.length * taken) / most));
            pixels[to + x] = !most ? without : level ? levels[level - 1] : thin[base + x] ? levels[0] : empty;
        }
        for (let next = rows.top[row] + 1; next < rows.top[row + 1]; next++) pixels.copyWithin(next * w, to, to + w);
    }
}

// The names of partitions on the right of their nodes, with lines between them.
function drawPartitions({ plot, data, view }) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.lineWidth = devicePixelRatio;
    ctx.fillStyle = colour("quiet");
    ctx.strokeStyle = colour("quiet");
    for (const [first, count, names] of data.partitions) {
        const [low, high] = [Math.max(first, view.n0), Math.min(first + count, view.n1)];
        if (low >= high) continue;
        const [bottom, top] = [plot.valToPos(low, "y", true), plot.valToPos(high, "y", true)];
        if (bottom - top < LABEL_PX * devicePixelRatio) continue;
        if (plot.width > NARROW_PX) ctx.fillText(names, bbox.left + bbox.width + 6 * devicePixelRatio, (bottom + top) / 2, PARTITION_PX * devicePixelRatio);
        if (high < view.n1) ctx.strokeRect(bbox.left, top, bbox.width, 0);
    }
    ctx.restore();
}

const PARTITION_PX = 110; // width of their names
const NARROW_PX = 600; // charts without them

// A choice of what the colours show, where there is one.
function shadeChoice(schedule) {
    const { counted, data } = schedule;
    if (!counted.length) return [];
    const names = ["jobs on the node", ...counted.map(({ name }) => `${name} taken`)];
    const choose = ({ target }) => schedule.shade(counted[target.selectedIndex - 1] ?? null);
    return [element("select", { "aria-label": `What the colours of ${data.title} show`, onchange: choose },
        ...names.map((name) => element("option", {}, name)))];
}

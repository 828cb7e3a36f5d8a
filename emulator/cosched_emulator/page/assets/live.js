"use strict";
// A live page asks for itself again, and takes over the parts that have changed; what is open, scrolled or in focus stays so.

const EVERY_MS = 5000;
const ANSWER_MS = 15000;

async function renew() {
    if (!document.hidden) {
        try {
            const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
            if (!answer.ok) throw new Error(await answer.text());
            take_over(new DOMParser().parseFromString(await answer.text(), "text/html"));
            say("");
        } catch (error) {
            say(`Not renewed: ${error.message.trim()}`);
        }
    }
    setTimeout(renew, EVERY_MS);
}

function take_over(page) {
    const kept = new Map([...document.querySelectorAll(".wide")].map((wide) => [wide.ariaLabel, wide]));
    const opened = new Set([...document.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent));
    const focus = document.activeElement;
    const found = [focus.ariaLabel, focus.getAttribute("href"), focus.tagName === "SUMMARY" ? focus.textContent : null];
    document.title = page.title;
    for (const name of ["header", "main"]) {
        const [old, fresh] = [document.querySelector(name), page.querySelector(name)];
        if (old.innerHTML !== fresh.innerHTML) old.replaceWith(document.adoptNode(fresh));
    }
    for (const summary of document.querySelectorAll("summary")) summary.parentElement.open = opened.has(summary.textContent);
    for (const wide of document.querySelectorAll(".wide")) {
        const before = kept.get(wide.ariaLabel);
        if (before && before !== wide) [wide.scrollLeft, wide.scrollTop] = [before.scrollLeft, before.scrollTop];
    }
    if (focus.isConnected) return;
    const [label, href, text] = found;
    const same = [...document.querySelectorAll(".wide, a, summary")].find((part) =>
        (label && part.ariaLabel === label) || (href && part.getAttribute("href") === href) || (text && part.textContent === text));
    same?.focus({ preventScroll: true });
}

// What goes wrong stands below the page's first line until it is over.
function say(text) {
    let said = document.querySelector("p.renewed");
    if (!said && !text) return;
    if (!said) {
        said = element("p", { class: "renewed", role: "status" });
        document.body.append(said);
    }
    if (said.textContent !== text) said.textContent = text;
}

document.documentElement.dataset.drawn = "yes";
setTimeout(renew, EVERY_MS);

// A document with as much as live.js uses. It runs the script and gives it samples, and prints what the page shows then.
"use strict";
const element = () => ({
	textContent: "", attributes: {}, children: [], dataset: {time: ""},
	hasAttribute(name) { return name in this.attributes; },
	setAttribute(name, value) { this.attributes[name] = value; },
	replaceChildren(...all) { this.children = all; },
});
const input = JSON.parse(require("fs").readFileSync(0, "utf8"));
const rows = input.rows.map(dataset => {
	const cells = [element(), element(), element()];
	const lines = dataset.lines.map(element);
	return {dataset, cells, lines, querySelectorAll: what => what === "td" ? cells : lines};
});
const page = {live: element(), "live-state": element(), "live-memory": element(), "live-work": element(), "live-log": element()};
page.live.querySelectorAll = () => rows;
const handlers = {};
globalThis.window = globalThis;
globalThis.document = {getElementById: id => page[id], createElement: element};
globalThis.EventSource = class {
	addEventListener(name, handler) { handlers[name] = handler; }
	close() {}
};
require("vm").runInThisContext(input.script);
const shown = () => ({
	state: page["live-state"].textContent,
	memory: page["live-memory"].textContent,
	work: page["live-work"].children.map(li => li.textContent),
	log: page["live-log"].children.map(li => li.textContent),
	rows: rows.map(r => ({
		now: r.cells[0].textContent, minute: r.cells[1].textContent, lines: r.lines.map(l => l.attributes.points),
	})),
});
input.samples.forEach(data => handlers.sample({data}));
handlers.error();
const lost = shown().state;
handlers.sample({data: input.samples.at(-1)}); // the same, after a lost connection
const last = shown();
handlers.closed();
console.log(JSON.stringify({lost, last, closed: shown()}));

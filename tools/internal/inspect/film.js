"use strict";
// Plays the steps of a manifest in the picture of its tree: a slider, and buttons to go on, back and to play.
(() => {
	const figure = document.querySelector("figure[data-name=film]"), film = JSON.parse(document.getElementById("data").textContent);
	const make = (name, parent, attributes) => {
		const e = document.createElement(name);
		for (const a in attributes) e.setAttribute(a, attributes[a]);
		parent.append(e);
		return e;
	};
	const zooms = [...figure.querySelectorAll("svg.zoom")].map(svg => {
		const number = name => Number(svg.getAttribute(name));
		return {svg, left: number("x"), top: number("y"), wide: number("width"),
			high: Number(svg.querySelector("[data-id] rect").getAttribute("height")) + 4};
	});
	const rows = film.slots.reduce((first, n) => [...first, first.at(-1) + n], [0]);

	// The places of the tables after a step, by table.
	const after = step => {
		const live = new Map();
		for (const s of film.steps.slice(0, step + 1)) {
			for (const t of s.removed) live.delete(t);
			for (const p of s.added) live.set(p.table, p);
		}
		return live;
	};
	// The row of each place: the runs of a level are in its rows, the newest first.
	const rowsOf = places => {
		const runs = film.slots.map(() => new Set());
		for (const p of places) runs[p.level].add(p.run);
		const ranks = runs.map(ids => new Map([...ids].sort((a, b) => b - a).map((id, i) => [id, i])));
		return p => rows[p.level] + Math.min(ranks[p.level].get(p.run), film.slots[p.level] - 1);
	};
	const color = rate => "f-ramp-" + (1 + Math.min(11, Math.max(0, Math.floor(12 * (Math.log10(Math.max(rate, 1e-5)) + 5) / 4))));
	const draw = (zoom, p, row, className) => {
		const t = film.tables[p.table], ns = zoom.svg.namespaceURI;
		const g = document.createElementNS(ns, "g"), rect = document.createElementNS(ns, "rect"), title = document.createElementNS(ns, "title");
		const gap = (t.to - t.from) * zoom.wide > 4 ? .5 : 0;
		const place = {x: Math.min(zoom.left + t.from * zoom.wide + gap, zoom.left + zoom.wide - 1), y: zoom.top + row * zoom.high + 2,
			width: Math.max((t.to - t.from) * zoom.wide - 2 * gap, 1), height: zoom.high - 4, class: color(t.rate)};
		for (const a in place) rect.setAttribute(a, place[a]);
		title.textContent = t.title;
		g.setAttribute("class", className);
		g.dataset.id = t.file;
		g.dataset.group = "level " + p.level;
		g.append(rect, title);
		return g;
	};

	const tools = document.createElement("div");
	tools.className = "tools film";
	figure.querySelector(".tools, svg").before(tools);
	const button = (text, name, f) => {
		const b = make("button", tools, {type: "button"});
		b.textContent = text;
		if (name) b.title = name, b.setAttribute("aria-label", name);
		b.addEventListener("click", f);
		return b;
	};
	const play = button("Play", "", () => timer ? stop() : start());
	play.className = "main";
	button("‹", "One step back", () => { stop(); show(at - 1); });
	const slider = make("input", tools, {type: "range", min: 1, max: film.steps.length, "aria-label": "step"});
	button("›", "One step on", () => { stop(); show(at + 1); });
	const said = make("p", tools, {id: "now", role: "status"});

	let at = film.steps.length - 1, timer = 0;
	const show = step => {
		at = Math.min(Math.max(step, 0), film.steps.length - 1);
		const now = film.steps[at], before = after(at - 1), live = after(at);
		const fresh = new Set(now.added.map(p => p.table)), rowNow = rowsOf(live.values()), rowThen = rowsOf(before.values());
		for (const zoom of zooms) {
			for (const old of zoom.svg.querySelectorAll("[data-id]")) old.remove();
			const gone = now.removed.map(t => before.get(t)).map(p => draw(zoom, p, rowThen(p), "gone"));
			const there = [...live.values()].map(p => draw(zoom, p, rowNow(p), at > 0 && fresh.has(p.table) ? "hit" : ""));
			zoom.svg.prepend(...gone, ...there);
		}
		figure.dispatchEvent(new Event("redrawn"));
		slider.value = at + 1;
		slider.setAttribute("aria-valuetext", said.textContent = (at + 1).toLocaleString("en") + " of " +
			film.steps.length.toLocaleString("en") + ": " + now.what + ".");
	};
	const stop = () => {
		clearInterval(timer);
		timer = 0;
		play.textContent = "Play";
		said.setAttribute("aria-live", "polite");
	};
	const start = () => {
		if (at === film.steps.length - 1) show(0);
		said.setAttribute("aria-live", "off"); // until it ends
		play.textContent = "Pause";
		timer = setInterval(() => at === film.steps.length - 1 ? stop() : show(at + 1),
			Math.min(Math.max(30000 / film.steps.length, 60), 800)); // a film takes about half a minute
	};
	slider.addEventListener("input", () => { stop(); show(slider.valueAsNumber - 1); });
	show(at);
})();

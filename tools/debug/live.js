"use strict";
// The server sends the parts of the page that change.
(() => {
	const live = document.getElementById("live-now");
	if (!live || !window.EventSource || live.hasAttribute("data-closed")) return;
	const show = (id, html) => {
		const e = document.getElementById(id);
		if (e && e.innerHTML !== html) e.innerHTML = html;
	};
	const source = new EventSource("events?page");
	source.addEventListener("parts", e => {
		const {trees, ...parts} = JSON.parse(e.data);
		for (const [id, html] of Object.entries(parts)) show(id, html);
		redraw(trees);
	});
	// The picture of the tree is fetched when the tree has changed; what the other scripts have made of it stays.
	let drawn = Number(document.getElementById("live-tree").dataset.trees), drawing = false;
	const redraw = async trees => {
		const busy = document.querySelector("#live-tree [data-busy]"); // with a key that falls
		if (drawn === trees || drawing || busy && Date.now() < Number(busy.dataset.busy)) return;
		drawing = true;
		try {
			const response = await fetch("tree");
			if (!response.ok) return;
			const fresh = document.createElement("div"), figure = document.querySelector("#live-tree figure");
			fresh.innerHTML = await response.text();
			drawn = trees;
			if (!figure || !fresh.querySelector("figure")) return location.reload(); // the first table, or none is left
			for (const kind of ["wide", "narrow"])
				figure.querySelector("svg." + kind).replaceWith(fresh.querySelector("svg." + kind));
			figure.dispatchEvent(new CustomEvent("redrawn"));
		} finally {
			drawing = false;
		}
	};
	source.addEventListener("closed", () => source.close());
	source.addEventListener("error", () => show("live-state", source.readyState === EventSource.CLOSED ?
		"There are no live figures: the store is closed, has too many viewers, or its server cannot stream." :
		"The connection is lost; trying again."));
})();

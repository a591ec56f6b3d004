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
		for (const [id, html] of Object.entries(JSON.parse(e.data))) show(id, html);
	});
	source.addEventListener("closed", () => source.close());
	source.addEventListener("error", () => show("live-state", source.readyState === EventSource.CLOSED ?
		"There are no live figures: the store is closed, has too many viewers, or its server cannot stream." :
		"The connection is lost; trying again."));
})();

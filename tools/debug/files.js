"use strict";
(() => {
	const state = document.getElementById("files-state");
	if (!state || !window.EventSource) return;
	const source = new EventSource("events?shown=" + encodeURIComponent(state.dataset.shown));
	source.addEventListener("changed", () => {
		source.close();
		state.textContent = "The files have changed since then. Reload the page to see them; they are read at most " +
			"every " + state.dataset.reread + ".";
	});
})();

"use strict";
// Without this script the page can be read in full. With it, tables can be sorted, groups chosen and charts stretched,
// and a pointer or the keyboard shows what is under it.
(() => {
	const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
	const make = (name, text, parent) => {
		const e = document.createElement(name);
		e.textContent = text;
		if (parent) parent.append(e);
		return e;
	};

	// A link into a folded part opens it.
	const arrive = () => {
		const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
		for (let d = target && target.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
		if (target) target.scrollIntoView();
	};
	addEventListener("hashchange", arrive);
	if (location.hash) arrive();

	// The name of what is under the pointer, or has the focus.
	const tip = make("div", "", document.body);
	tip.className = "tip";
	tip.hidden = true;
	tip.setAttribute("role", "tooltip");
	const nameTagged = inside => {
		for (const title of all("svg a > title, svg g > title", inside)) {
			const e = title.parentElement;
			e.setAttribute("aria-label", e.dataset.tip = title.textContent);
			title.remove();
		}
	};
	nameTagged(document);
	const show = (text, x, y) => {
		tip.textContent = text;
		tip.hidden = false;
		const box = tip.getBoundingClientRect();
		const left = Math.min(x + 12, innerWidth - box.width - 4);
		const top = y + 16 + box.height > innerHeight ? y - 8 - box.height : y + 16;
		tip.style.transform = "translate(" + Math.max(left, 4) + "px," + Math.max(top, 4) + "px)";
	};
	const hide = () => { tip.hidden = true; };
	const cellText = (g, i) => {
		const d = g.dataset, values = d.values.split(";"), each = Number(d.each);
		if (!(i in values)) return "";
		const from = i * each, to = from + each - 1;
		return d.of + " " + from.toLocaleString("en") + (to > from ? " to " + to.toLocaleString("en") : "") + ": " + values[i];
	};
	const cellAt = (g, x, y) => {
		const box = g.getBoundingClientRect(), columns = Number(g.dataset.columns);
		const rows = Number(g.dataset.rows);
		return Math.floor((y - box.top) / box.height * rows) * columns + Math.floor((x - box.left) / box.width * columns);
	};
	addEventListener("pointermove", e => {
		const tagged = e.target.closest("[data-tip]"), cells = e.target.closest("[data-values].cells");
		const text = tagged ? tagged.dataset.tip : cells ? cellText(cells, cellAt(cells, e.clientX, e.clientY)) : "";
		if (text) show(text, e.clientX, e.clientY); else hide();
	});
	addEventListener("focusin", e => {
		const tagged = e.target.closest("[data-tip]");
		if (!tagged) return hide();
		const box = tagged.getBoundingClientRect();
		show(tagged.dataset.tip, box.left, box.bottom - 8);
	});
	addEventListener("keydown", e => { if (e.key === "Escape") hide(); });
	for (const g of all("[data-values].cells")) {
		g.setAttribute("tabindex", "0");
		g.setAttribute("role", "img");
		g.setAttribute("aria-label", "cells; the arrow keys move from one to the next");
		const columns = Number(g.dataset.columns), count = g.dataset.values.split(";").length;
		let at = 0;
		g.addEventListener("keydown", e => {
			const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns}[e.key];
			if (!step) return;
			e.preventDefault();
			if (at + step >= 0 && at + step < count) at += step;
			const box = g.getBoundingClientRect(), rows = Number(g.dataset.rows);
			g.setAttribute("aria-label", cellText(g, at));
			show(cellText(g, at), box.left + (at % columns + .5) * box.width / columns,
				box.top + (Math.floor(at / columns) + .5) * box.height / rows);
		});
	}

	// A click on the name of a column sorts by it.
	const units = {K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40};
	const value = text => {
		const m = /^[+≤≥~]?(-?[0-9][0-9,.]*(?:e[-+][0-9]+)?)(?: ([KMGT])iB)?/.exec(text.trim());
		return m ? Number(m[1].replaceAll(",", "")) * (units[m[2]] || 1) : NaN;
	};
	const compare = (a, b) => {
		const x = value(a), y = value(b);
		if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
		return isNaN(x) ? (a < b ? -1 : a > b ? 1 : 0) : x - y;
	};
	for (const table of all("table")) {
		const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
		if (body.rows.length < 3) continue;
		heads.forEach((th, column) => {
			const button = make("button", th.textContent);
			button.type = "button";
			th.replaceChildren(button);
			button.addEventListener("click", () => {
				const down = th.getAttribute("aria-sort") === "ascending";
				heads.forEach(other => other.removeAttribute("aria-sort"));
				th.setAttribute("aria-sort", down ? "descending" : "ascending");
				const text = row => row.cells[column].textContent;
				const rows = [...body.rows].sort((a, b) => compare(text(a), text(b)) * (down ? -1 : 1));
				body.append(...rows);
			});
		});
	}

	// A list above the first table with groups, and at charts with groups, chooses one of them.
	const groups = [...new Set(all("tr[data-group]").map(e => e.dataset.group))];
	const lists = [];
	const choose = name => {
		for (const list of lists) list.value = name;
		for (const e of all("tr[data-group]")) e.hidden = name !== "" && e.dataset.group !== name;
		for (const e of all("svg [data-group]")) e.classList.toggle("dim", name !== "" && e.dataset.group !== name);
	};
	const addList = tools => {
		if (groups.length < 2) return;
		const label = make("label", "Show ", tools), list = make("select", "", label);
		make("option", "all", list).value = "";
		for (const name of groups) make("option", name, list);
		list.addEventListener("change", () => choose(list.value));
		lists.push(list);
	};
	const toolsBefore = e => {
		const tools = make("div", "");
		tools.className = "tools";
		e.before(tools);
		return tools;
	};
	for (const table of all("table")) if (table.querySelector("tr[data-group]")) addList(toolsBefore(table));

	// Buttons at a chart stretch it.
	for (const figure of all("figure")) {
		if (!figure.querySelector("svg.zoom")) continue;
		const tools = toolsBefore(figure.querySelector("svg"));
		addList(tools);
		let from = 0, to = 1;
		const apply = (low, high) => {
			const width = Math.min(high - low, 1);
			from = Math.min(Math.max(low, 0), 1 - width);
			to = from + width;
			for (const svg of all("svg.zoom", figure)) {
				const [x, y, w, h] = ["x", "y", "width", "height"].map(name => Number(svg.getAttribute(name)));
				svg.setAttribute("viewBox", [x + from * w, y, width * w, h].join(" "));
				for (const text of all("text", svg)) {
					const middle = Number(text.getAttribute("x")) + text.getComputedTextLength() / 2;
					text.setAttribute("transform", "translate(" + middle + " 0) scale(" + width + " 1) translate(" + -middle + " 0)");
				}
			}
		};
		const zoom = (by, at = (from + to) / 2) => {
			const width = Math.max((to - from) * by, 1e-6);
			const share = (at - from) / (to - from);
			apply(at - share * width, at + (1 - share) * width);
		};
		const button = (sign, name, f) => {
			const b = make("button", sign, tools);
			b.type = "button";
			b.title = name;
			b.setAttribute("aria-label", name);
			b.addEventListener("click", f);
		};
		button("+", "Zoom in", () => zoom(.5));
		button("−", "Zoom out", () => zoom(2));
		button("◀", "Move left", () => apply(from - (to - from) / 2, to - (to - from) / 2));
		button("▶", "Move right", () => apply(from + (to - from) / 2, to + (to - from) / 2));
		button("whole", "Show everything", () => apply(0, 1));
		figure.addEventListener("dblclick", e => {
			const svg = e.target.closest("svg.zoom"), box = svg && svg.getBoundingClientRect();
			if (svg) zoom(.5, from + (e.clientX - box.left) / box.width * (to - from));
		});
		// What is shown of a chart stays when it is drawn anew.
		figure.addEventListener("redrawn", () => {
			nameTagged(figure);
			apply(from, to);
			if (lists.length) choose(lists[0].value);
		});
	}
})();

"use strict";
// The search for a key: it shows the tables that a lookup asks, and the blocks and bits that their filters probe. The hash
// is XXH64 with seed 0; how a filter places it is described with Seed.Mix, Hash.Block and Hash.Fields in bloomblock.
(() => {
	const data = document.getElementById("data"), chart = document.querySelector("#tree ~ figure, section:has(#tree) figure");
	if (!data || !chart) return;
	const tables = JSON.parse(data.textContent);
	const M = (1n << 64n) - 1n, low = v => v & M, rotate = (v, n) => low(v << n | v >> 64n - n);
	const P = [11400714785074694791n, 14029467366897019727n, 1609587929392839161n, 9650029242287828579n, 2870177450012600261n];

	const xxh64 = key => {
		const view = new DataView(key.buffer, key.byteOffset, key.length);
		const round = (acc, lane) => low(rotate(low(acc + lane * P[1]), 31n) * P[0]);
		let at = 0, h;
		if (key.length >= 32) {
			const v = [low(P[0] + P[1]), P[1], 0n, low(-P[0])];
			for (; at + 32 <= key.length; at += 32)
				for (let i = 0; i < 4; i++) v[i] = round(v[i], view.getBigUint64(at + 8 * i, true));
			h = low(rotate(v[0], 1n) + rotate(v[1], 7n) + rotate(v[2], 12n) + rotate(v[3], 18n));
			for (const x of v) h = low((h ^ round(0n, x)) * P[0] + P[3]);
		} else h = P[4];
		h = low(h + BigInt(key.length));
		for (; at + 8 <= key.length; at += 8) h = low(rotate(h ^ round(0n, view.getBigUint64(at, true)), 27n) * P[0] + P[3]);
		if (at + 4 <= key.length) {
			h = low(rotate(h ^ low(BigInt(view.getUint32(at, true)) * P[0]), 23n) * P[1] + P[2]);
			at += 4;
		}
		for (; at < key.length; at++) h = low(rotate(h ^ low(BigInt(key[at]) * P[4]), 11n) * P[0]);
		h = low((h ^ h >> 33n) * P[1]);
		h = low((h ^ h >> 29n) * P[2]);
		return h ^ h >> 32n;
	};
	const mix = (h, seed) => {
		const p = (h ^ seed) * (low(seed * 0xd1342543de82ef95n) | 1n);
		return low(p >> 64n ^ low(p));
	};
	const next = h => {
		const x = low((h ^ h >> 32n) * 0x94d049bb133111ebn);
		return x ^ x >> 29n;
	};
	// Of units side by side, which have parts, the block in a further one is in the part of the first one's.
	const probes = (h, unit, first) => {
		const a = low(h * 0x9e3779b97f4a7c15n), b = low((a ^ a >> 32n) * 0xbf58476d1ce4e5b9n), bits = [];
		for (let i = 0; i < unit.probes; i++)
			bits.push(Number((i < 7 ? a >> 9n * BigInt(i) : b >> 9n * BigInt(i - 7)) & 511n));
		const blocks = BigInt(unit.blocks), parts = h === first ? 1n : BigInt(unit.parts || 1), each = blocks / parts;
		return {block: Number((first * parts >> 64n) * each + (h * each >> 64n)), bits};
	};

	// A key is written as the tool prints keys: \\xNN is a byte, \\\\ a backslash.
	const bytesOf = text => {
		const out = [], utf8 = new TextEncoder();
		for (let i = 0; i < text.length;) {
			const m = /^\\(x[0-9a-fA-F]{2}|[\\"nrtabfv]|u[0-9a-fA-F]{4})/.exec(text.slice(i));
			if (m && m[1][0] === "x") out.push(parseInt(m[1].slice(1), 16));
			else if (m && m[1][0] === "u") out.push(...utf8.encode(String.fromCharCode(parseInt(m[1].slice(1), 16))));
			else if (m) out.push({n: 10, r: 13, t: 9, a: 7, b: 8, f: 12, v: 11}[m[1]] || m[1].charCodeAt(0));
			else {
				const c = String.fromCodePoint(text.codePointAt(i));
				out.push(...utf8.encode(c));
				i += c.length;
				continue;
			}
			i += m[0].length;
		}
		return new Uint8Array(out);
	};
	const hexOf = bytes => [...bytes].map(b => b.toString(16).padStart(2, "0")).join("");
	// Long fences are cut, so a key that begins like one may be within.
	const within = (key, t) => key >= t.low &&
		(t.no_end || (t.cut ? key.startsWith(t.high) : key === t.high && !t.open) || key < t.high);

	const make = (name, text, parent) => {
		const e = document.createElement(name);
		e.textContent = text;
		parent.append(e);
		return e;
	};
	const form = document.createElement("form");
	form.className = "tools";
	form.setAttribute("role", "search");
	const label = make("label", "Find a key ", form), input = document.createElement("input");
	input.type = "search";
	input.id = "find-key";
	input.spellcheck = false;
	label.append(input);
	make("button", "Find", form);
	chart.querySelector("svg").before(form);
	const result = document.createElement("div");
	result.id = "found";
	result.setAttribute("role", "status");
	form.after(result);

	const boxes = t => t.id ? [...document.querySelectorAll("svg a")].filter(a => a.getAttribute("href") === "#" + t.id) : [];
	const rows = t => [...document.querySelectorAll("section:has(#tables) tr")].filter(tr => tr.cells[0].textContent === t.file);
	const mark = (t, unit, block) => {
		const part = t.id && document.getElementById(t.id);
		if (!part) return;
		for (const g of part.querySelectorAll("figure[data-name$='-regions-" + unit + "'] g.cells")) {
			const {columns, rows, each} = g.dataset, cell = Math.floor(block / each);
			const image = g.querySelector("image"), number = name => Number(image.getAttribute(name));
			const wide = number("width") / columns, high = number("height") / rows;
			const rect = document.createElementNS(g.namespaceURI, "rect");
			rect.setAttribute("x", number("x") + cell % columns * wide);
			rect.setAttribute("y", number("y") + Math.floor(cell / columns) * high);
			rect.setAttribute("width", wide);
			rect.setAttribute("height", high);
			rect.setAttribute("class", "s-ink probe");
			rect.setAttribute("stroke-width", "2");
			g.append(rect);
		}
	};
	form.addEventListener("submit", e => {
		e.preventDefault();
		for (const old of document.querySelectorAll(".hit")) old.classList.remove("hit");
		for (const old of document.querySelectorAll(".probe")) old.remove();
		result.replaceChildren();
		if (input.value === "") return;
		const bytes = bytesOf(input.value), key = hexOf(bytes), hash = xxh64(bytes);
		const found = tables.filter(t => within(key, t));
		make("p", "Hash " + hash.toString(16).padStart(16, "0") + ". " + (found.length ? "A lookup asks, until a table has the key:" :
			"No table spans this key: a lookup searches none."), result);
		const list = make("ol", "", result);
		for (const t of found) {
			for (const e of boxes(t).concat(rows(t))) e.classList.add("hit");
			const li = make("li", t.level + ", ", list);
			if (t.id) make("a", t.file, li).href = "#" + t.id; else li.append(t.file);
			if (t.damaged) {
				li.append(": it could not be read");
				continue;
			}
			const first = mix(hash, BigInt(t.seed));
			let h = first;
			t.units.forEach((unit, i) => {
				if (unit.ribbon) {
					li.append("; unit " + i + ": a Ribbon unit");
					return;
				}
				const p = probes(h, unit, first);
				li.append("; unit " + i + ": block " + p.block.toLocaleString("en") + " of " + unit.blocks.toLocaleString("en") +
					", bits " + p.bits.join(" "));
				mark(t, i, p.block);
				h = next(h);
			});
			if (!t.units.length) li.append(": no filter in memory, so the table is searched");
		}
	});
})();

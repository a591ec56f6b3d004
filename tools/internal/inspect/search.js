"use strict";
// A key falls through the tree: which filters a lookup asks, the bits that they probe, and what it costs. And a rain of
// absent keys. The hash is XXH64 with seed 0; how a filter places it is described with Seed.Mix, Hash.Block and
// Hash.Fields in bloomblock.
(() => {
	const json = document.getElementById("data"), figure = document.querySelector("figure[data-name=tree]");
	const served = document.getElementById("live-state") || document.getElementById("files-state");
	if (!figure || !json && !served) return;
	const data = json ? JSON.parse(json.textContent) : {tables: []};
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

	const make = (name, text, parent, className) => {
		const e = document.createElement(name);
		e.textContent = text;
		if (className) e.className = className;
		parent.append(e);
		return e;
	};
	const form = document.createElement("form");
	form.className = "tools";
	form.setAttribute("role", "search");
	const label = make("label", "A key ", form), input = make("input", "", label);
	input.type = "search";
	input.id = "find-key";
	input.spellcheck = false;
	input.placeholder = data.samples && data.samples.length ? data.samples[0].key : "";
	make("button", "Let it fall", form, "main");
	const rainButton = make("button", "Rain 10,000 absent keys", form);
	rainButton.type = "button";
	figure.querySelector(".tools, svg").before(form);
	const result = document.createElement("div");
	result.id = "found";
	result.setAttribute("role", "status");
	[...figure.children].findLast(e => e.localName === "svg").after(result);

	// Keys to begin with, which have their answers on the page.
	const kindOf = k => k.tables.some(t => t.found === "value") ? "a present key" :
		k.tables.some(t => t.verdict === "false positive") ? "a false maybe" : "an absent one";
	if (data.samples && data.samples.length) {
		const hint = make("p", "Try: ", form, "hint");
		data.samples.forEach((k, i) => {
			if (i) hint.append(", ");
			const b = make("button", kindOf(k), hint);
			b.type = "button";
			b.addEventListener("click", () => {
				input.value = k.key;
				form.requestSubmit();
			});
		});
	}

	// The answer is that of the server, or one that is on the page, or that of the filters whose bits are on the page.
	const fetched = async path => {
		const response = await fetch(path), body = await response.json();
		if (!response.ok) throw new Error(body.error);
		return body;
	};
	const local = text => {
		const bytes = bytesOf(text), key = hexOf(bytes), hash = xxh64(bytes);
		return {hash: hash.toString(16).padStart(16, "0"), tables: data.tables.filter(t => within(key, t)).map(t => {
			const first = mix(hash, BigInt(t.seed));
			let h = first, answer = t.damaged || !t.units.length ? "none" : "maybe";
			const units = t.units.map(unit => {
				if (unit.ribbon) {
					answer = answer === "no" ? "no" : "unknown";
					return {kind: "ribbon"};
				}
				const p = probes(h, unit, first), bits = unit.bits && Uint8Array.from(atob(unit.bits), c => c.charCodeAt(0));
				h = next(h);
				const found = p.bits.map(bit => ({bit, set: bits ? (bits[64 * p.block + (bit >> 3)] >> (bit & 7) & 1) === 1 : null}));
				if (!bits) answer = answer === "no" ? "no" : "unknown";
				else if (found.some(p => !p.set)) answer = "no";
				return {kind: "bloom", block: p.block, probes: found};
			});
			return {file: t.file, level: t.level, within: true, answer, units, found: "unknown"};
		})};
	};
	const ask = text => served ? fetched("ask?key=" + encodeURIComponent(text)) :
		(data.samples || []).find(k => k.key === text) || local(text);

	const boxes = file => [...figure.querySelectorAll("svg [data-id~='" + file + "']")];
	const rows = file => [...document.querySelectorAll("section:has(#tables) tr")].filter(tr => tr.cells[0].textContent === file);
	const mark = (id, unit, block) => {
		const part = id && document.getElementById(id);
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

	// What is drawn over the picture.
	let over = null;
	const clear = () => {
		if (over) over.remove();
		over = null;
	};
	const layer = name => {
		clear();
		over = document.createElement(name);
		over.className = "layer";
		over.setAttribute("aria-hidden", "true");
		figure.dataset.busy = Date.now() + 6000; // until then, a picture that changes is not drawn anew
		figure.append(over);
		return over;
	};
	addEventListener("resize", clear);
	figure.addEventListener("redrawn", clear);
	figure.addEventListener("click", e => { if (e.target.closest(".tools:not(form) button, .tools:not(form) select")) clear(); });
	const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
	const boxOf = file => {
		const e = boxes(file).find(e => e.getClientRects().length), r = e && e.querySelector("rect").getBoundingClientRect();
		const f = figure.getBoundingClientRect();
		return r && {left: r.left - f.left, right: r.right - f.left, top: r.top - f.top, bottom: r.bottom - f.top};
	};

	const litOf = t => t.units.flatMap(u => u.probes || (u.columns || []).map(set => ({set})));
	const wordOf = t => t.answer === "none" ? "no filter" : t.answer === "unknown" ? "not on this page" : t.answer;
	const fall = tables => {
		const stops = tables.map(t => ({t, box: boxOf(t.file)})).filter(s => s.box);
		const shown = layer("div");
		if (!stops.length) return;
		const left = Math.max(...stops.map(s => s.box.left)), right = Math.min(...stops.map(s => s.box.right));
		const x = (left + Math.max(right, left)) / 2, top = stops[0].box.top - 14, bottom = stops.at(-1).box.bottom;
		const drop = make("i", "", shown, "drop");
		Object.assign(drop.style, {left: x + "px", top: top + "px", height: bottom - top + "px", animationDuration: .3 * stops.length + "s"});
		stops.forEach(({t, box}, i) => {
			const lit = litOf(t).filter(p => p.set).length, of = litOf(t).length;
			const stop = make("span", wordOf(t) + (of && t.answer !== "unknown" ? " · " + lit + " of " + of + " bits" : ""), shown,
				"stop " + t.answer + (t.skipped ? " skipped" : ""));
			const half = stop.getBoundingClientRect().width / 2 + 2;
			Object.assign(stop.style, {left: Math.max(half, Math.min(x, figure.clientWidth - half)) + "px",
				top: (box.top + box.bottom) / 2 + "px", animationDelay: .3 * (i + .5) + "s"});
		});
	};

	// Tables that come after the one that has the key are not searched, though all filters are asked at once.
	const count = n => n.toLocaleString("en"), plural = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");
	const sum = a => {
		const asked = a.tables.filter(t => t.within);
		let end = null, reads = 0;
		for (const t of asked) {
			t.skipped = end !== null;
			if (!end && t.answer !== "no") {
				reads++;
				if (t.found === "value" || t.found === "delete" || t.range_deleted) end = t;
			}
		}
		const no = asked.filter(t => t.answer === "no").length, unknown = asked.some(t => t.answer === "unknown" || t.found === "unknown" && t.answer !== "no");
		const without = asked.filter(t => !t.skipped).length;
		const has = a.has === true && !(end && end.found === "value") ? "The store has this key in memory, and in no table yet" :
			end && end.found === "value" && !end.range_deleted ? "The store has this key" : end ? "This key was deleted" :
			unknown ? "Whether the store has this key is not on this page: bloomkv serve asks it" : "The store does not have this key";
		const cost = !asked.length ? "no table spans it, so no filter is asked" :
			no + " of " + plural(asked.length, "filter") + " said no" + (unknown ? "" :
				", so " + plural(reads, "table") + (reads === 1 ? " was" : " were") + " read instead of " + without);
		return {asked, text: has + ": " + cost + "."};
	};
	const verdictOf = t => t.skipped ? "not needed" : t.answer === "no" ? "no: not read" :
		t.answer === "unknown" ? "its bits are not on this page" :
		(t.answer === "none" ? "no filter: read" : "maybe: read") + {value: ", and it is there", delete: ", and it is deleted there",
			nothing: ", and it is not there: wasted"}[t.found] || "";
	const show = a => {
		const {asked, text} = sum(a);
		result.replaceChildren();
		make("p", text, result, "sum");
		const list = make("ol", "", result);
		for (const t of asked) {
			for (const e of boxes(t.file).concat(rows(t.file))) e.classList.add("hit");
			const known = data.tables.find(k => k.file === t.file), li = make("li", "level " + t.level + ", ", list, t.answer);
			if (known && known.id) make("a", t.file, li).href = "#" + known.id; else li.append(t.file);
			li.append(" ");
			make("b", verdictOf(t), li);
			t.units.forEach((u, i) => {
				if (u.kind === "ribbon") {
					li.append("; unit " + i + ": a Ribbon unit" + (u.columns ? ", " + u.columns.filter(Boolean).length + " of " + u.columns.length + " columns agree" : ""));
					return;
				}
				li.append("; unit " + i + ": block " + count(u.block) + ", bits ");
				for (const p of u.probes) {
					make("span", p.bit, li, p.set === null ? "bit" : p.set ? "bit set" : "bit unset").title =
						p.set === null ? "not on this page" : p.set ? "set" : "not set";
					li.append(" ");
				}
				if (known) mark(known.id, i, u.block);
			});
		}
		if (a.error) make("p", a.error, result);
		make("p", "Hash " + a.hash + ".", result, "hint");
		fall(asked);
	};
	const failed = err => result.replaceChildren(make("p", "No answer: " + err.message, document.createElement("div")));
	form.addEventListener("submit", async e => {
		e.preventDefault();
		for (const old of document.querySelectorAll(".hit")) old.classList.remove("hit");
		for (const old of document.querySelectorAll(".probe")) old.remove();
		clear();
		if (input.value === "") input.value = input.placeholder;
		try { show(await ask(input.value)); } catch (err) { failed(err); }
	});

	// The rain: all drops fall through all rows, and those that a filter lets through stay where they were.
	const rain = f => {
		const promise = f.promised ? "; the promise allows " + count(Math.round(f.drops * f.promised)) : "";
		const text = n => count(f.drops) + " absent keys: filters let " + count(n) + " through, each a table read in vain" + promise +
			(f.unread ? " (" + plural(f.unread, "table") + " could not be asked)" : "") + ".";
		const shown = document.createElement("p");
		shown.className = "sum";
		shown.textContent = text(0);
		result.replaceChildren(shown);
		result.setAttribute("aria-live", "off"); // until the end
		const zoom = [...figure.querySelectorAll("svg.zoom")].find(e => e.getClientRects().length), canvas = layer("canvas");
		const outer = zoom.ownerSVGElement, box = outer.getBoundingClientRect(), frame = figure.getBoundingClientRect();
		const scale = box.width / outer.viewBox.baseVal.width, view = zoom.viewBox.baseVal, number = name => Number(zoom.getAttribute(name));
		const left = box.left - frame.left + number("x") * scale, wide = number("width") * scale;
		const place = at => left + (number("x") + at * number("width") - view.x) / view.width * wide;
		const top = box.top - frame.top + number("y") * scale, bottom = top + number("height") * scale - 30 * scale;
		const dots = f.through.map((t, i) => ({x: place(t.at), box: boxOf(t.file), when: (i + 1) / f.through.length}))
			.filter(d => d.box && d.x >= left && d.x <= left + wide);
		const ratio = devicePixelRatio || 1, c = canvas.getContext("2d");
		canvas.width = frame.width * ratio;
		canvas.height = (bottom + 4) * ratio;
		Object.assign(canvas.style, {width: frame.width + "px", height: bottom + 4 + "px"});
		c.scale(ratio, ratio);
		const color = name => getComputedStyle(figure).getPropertyValue(name);
		const drops = Array.from({length: 500}, () => [left + Math.random() * wide, Math.random()]);
		const draw = t => {
			c.clearRect(0, 0, frame.width, bottom + 4);
			if (t < 1) {
				c.strokeStyle = color("--series-1");
				c.globalAlpha = .5;
				c.beginPath();
				for (const [x, at] of drops) {
					const y = top + (bottom - top) * ((at + 3 * t) % 1);
					c.moveTo(x, y);
					c.lineTo(x, Math.min(y + 9, bottom));
				}
				c.stroke();
			}
			c.globalAlpha = 1;
			c.fillStyle = color("--series-2");
			c.strokeStyle = color("--background");
			for (const d of dots) {
				if (d.when > t) continue;
				c.beginPath();
				c.arc(d.x, (d.box.top + d.box.bottom) / 2 + ((d.when * 977) % 1 - .5) * (d.box.bottom - d.box.top - 10), 4, 0, 7);
				c.fill();
				c.stroke();
			}
			if (t < 1) shown.textContent = text(Math.round(f.passed * t));
			else {
				result.removeAttribute("aria-live");
				shown.textContent = text(f.passed);
				if (!served) make("p", "The keys are random hashes, asked when this page was made.", result, "hint");
			}
		};
		if (still()) return draw(1);
		let began = 0;
		const step = now => {
			began = began || now;
			if (over !== canvas) return;
			draw(Math.min((now - began) / 2500, 1));
			if (now - began < 2500) requestAnimationFrame(step);
		};
		requestAnimationFrame(step);
	};
	rainButton.addEventListener("click", async () => {
		try { rain(served ? await fetched("rain") : data.rain); } catch (err) { failed(err); }
	});
})();

"use strict";
// A filter of 64 cells. The page knows which keys were added, so it can say when an answer is false. The hash is not
// that of the store, whose filters place keys as bloomblock says.
(() => {
	const toy = document.getElementById("toy");
	if (!toy) return;
	toy.hidden = false;
	const at = id => document.getElementById("toy-" + id);
	const cellCount = 64;
	const kinds = [
		{name: "classic", about: "Each cell of a key may be any of the 64. Cells have one bit, so a key cannot be taken out again: " +
			"zeroing its cells also takes them from other keys."},
		{name: "blocked, 8 cells a block", block: 8, group: "block", about: "The hash chooses one block, and all cells of the key are " +
			"in it. One read of memory answers, but a full block lets more keys through, so the rate is higher."},
		{name: "blocked, 16 cells a block", block: 16, group: "block", about: "As with 8 cells. Larger blocks are filled more evenly. " +
			"Those of the store have 512 bits, one line of the processor's cache."},
		{name: "partitioned", slices: true, group: "slice", about: "Each cell of a key is in a slice of its own, so the cells of a key always differ."},
		{name: "counting", counts: true, about: "A cell counts the keys that set it, up to 15. Removing a key counts down, so a cell " +
			"that other keys need stays set. A Counting of package bloom takes five times the memory of a Filter for this."},
		{name: "two units", units: 2, group: "unit", about: "Two filters of 32 cells. A key sets cells in both, and must pass both, so their rates " +
			"multiply. The store's filters have up to three units: where a higher rate is enough, it drops whole units from " +
			"memory. The number of cells is that in each unit."},
	];
	const fruits = ("apple pear plum fig cherry quince lemon mango grape peach apricot banana orange lime kiwi melon papaya guava " +
		"lychee olive medlar currant raspberry blackberry strawberry cranberry blueberry gooseberry date coconut").split(" ");

	let kind = kinds[0], bits = 3, tried = 0;
	let cells = [], boxes = [];
	const keys = new Set();

	// FNV-1a over the bytes of the key, then a finalizer for each number, so that the numbers are independent.
	const hashOf = key => {
		let h = 0x811c9dc5;
		for (const b of new TextEncoder().encode(key)) h = Math.imul(h ^ b, 0x01000193);
		return h;
	};
	const number = (hash, i, below) => {
		let h = hash ^ Math.imul(i + 1, 0x9e3779b1);
		h = Math.imul(h ^ h >>> 16, 0x85ebca6b);
		h = Math.imul(h ^ h >>> 13, 0xc2b2ae35);
		return Math.floor(((h ^ h >>> 16) >>> 0) / 2 ** 32 * below);
	};
	const groupSize = () => kind.block || (kind.slices ? Math.floor(cellCount / bits) : cellCount / (kind.units || 1));
	const groupCount = () => Math.floor(cellCount / groupSize());
	// placesOf returns the cells of a key in the order in which they are asked, each once.
	const placesOf = key => {
		const hash = hashOf(key), size = groupSize(), places = new Set();
		const first = kind.block ? size * number(hash, 100, groupCount()) : 0;
		for (let i = 0; i < bits * (kind.units || 1); i++) {
			const group = kind.slices ? i : Math.floor(i / bits);
			places.add(first + group * size + number(hash, i, size));
		}
		return [...places];
	};
	const denying = places => places.find(p => cells[p] === 0);
	const deniedKeys = () => [...keys].filter(key => denying(placesOf(key)) !== undefined);
	const setCells = () => cells.filter(c => c > 0).length;
	// A key with independent cells passes at the share of set cells, to the power of the cells that it asks: a group after
	// the other, or in one block of all.
	const expectedRate = () => {
		const size = groupSize(), count = groupCount(), asked = kind.slices ? 1 : bits;
		const rates = Array.from({length: count}, (_, g) =>
			(cells.slice(g * size, (g + 1) * size).filter(c => c > 0).length / size) ** asked);
		return kind.block ? rates.reduce((a, b) => a + b) / count : rates.reduce((a, b) => a * b);
	};

	// Changes of the filter.
	const setPlaces = places => {
		for (const p of places) cells[p] = kind.counts ? Math.min(cells[p] + 1, 15) : 1;
	};
	const clearPlaces = places => {
		for (const p of places) if (cells[p] < 15) cells[p] = kind.counts ? Math.max(cells[p] - 1, 0) : 0;
	};
	const rebuild = () => {
		cells = Array(cellCount).fill(0);
		for (const key of keys) setPlaces(placesOf(key));
	};

	// What is shown.
	const count = n => n.toLocaleString("en"), quoted = key => "“" + key + "”";
	const plural = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");
	const listed = all => all.length < 2 ? all.join("") : all.slice(0, -1).join(", ") + " and " + all.at(-1);
	const oneIn = rate => "one in " + count(Math.round(1 / rate));
	const cellsNamed = places => (places.length === 1 ? "cell " : "cells ") + listed(places);
	const element = (name, text, parent, className = "") => {
		const e = document.createElement(name);
		e.textContent = text;
		e.className = className;
		parent.append(e);
		return e;
	};
	const nextFruit = () => fruits.find(f => !keys.has(f)) || "key " + (keys.size + 1);
	const drawCells = () => {
		const size = groupSize();
		at("cells").replaceChildren();
		boxes = [];
		for (let g = 0; g * size < cellCount; g++) {
			const group = element("div", "", at("cells"), "group"), end = Math.min((g + 1) * size, cellCount);
			group.style.setProperty("--columns", size > 16 && size < 32 ? Math.ceil(size / 2) : Math.min(size, 16));
			if (kind.group) element("span", g < groupCount() ? kind.group + " " + g : "not used", group, "label");
			for (let p = g * size; p < end; p++) {
				const box = element("span", "", group, "cell" + (g < groupCount() ? "" : " spare"));
				element("small", p, box);
				box.append("");
				boxes.push(box);
			}
		}
	};
	// show draws the filter, with the cells of the key that was added or asked, and says what happened.
	const show = (text, className, places = [], fresh = []) => {
		const denied = deniedKeys(), rate = expectedRate(), no = className === "add" ? undefined : denying(places);
		boxes.forEach((box, p) => {
			box.lastChild.data = cells[p];
			box.classList.toggle("set", cells[p] > 0);
			box.classList.toggle("asked", places.includes(p));
			box.classList.toggle("denies", p === no);
		});
		if (!matchMedia("(prefers-reduced-motion: reduce)").matches)
			fresh.forEach((p, i) => boxes[p].animate([{transform: "scale(.2)"}, {transform: "none"}], {duration: 250, delay: i * Math.min(100, 500 / fresh.length), fill: "backwards"}));
		const list = setCells();
		at("cells").setAttribute("aria-label", list + " of " + cellCount + " cells are set" + (list ? ": " +
			listed([...cells.keys()].filter(p => cells[p] > 0)) : ""));
		at("answer").textContent = text;
		at("answer").className = className;
		at("count").textContent = count(keys.size);
		at("fill").textContent = list + " of " + cellCount;
		at("rate").textContent = rate ? (100 * rate).toPrecision(2) + " %, " + oneIn(rate) : "none";
		at("denied").textContent = denied.length;
		at("keys").replaceChildren();
		for (const key of keys) {
			const is = denied.includes(key), b = element("button", is ? key + ", denied" : key, element("li", "", at("keys")), is ? "denied" : "");
			b.type = "button";
			b.addEventListener("click", () => ask(key));
		}
		at("key").placeholder = nextFruit();
		at("remove").textContent = kind.counts ? "Remove" : "Remove by zeroing";
		at("about").textContent = kind.about;
	};
	const add = key => {
		const places = placesOf(key), fresh = places.filter(p => cells[p] === 0);
		if (keys.has(key)) return show(quoted(key) + " was added before: nothing changes.", "add", places);
		keys.add(key);
		setPlaces(places);
		show("Added " + quoted(key) + ": " + cellsNamed(places) + ". " + (fresh.length ? count(fresh.length) + " of them " +
			(fresh.length === 1 ? "was" : "were") + " 0." : "All were set before: asked earlier, the filter would have said maybe."), "add", places, fresh);
	};
	const ask = key => {
		const places = placesOf(key), no = denying(places), added = keys.has(key);
		if (no === undefined) return show("Maybe: " + cellsNamed(places) + " of " + quoted(key) + (places.length === 1 ? " is" : " are") + " set. " +
			(added ? "It was added." : "It was not added: this is a false yes."), added ? "maybe" : "wrong", places);
		const where = kind.group ? ", in " + kind.group + " " + Math.floor(no / groupSize()) + "," : "";
		show(added ? "No, and this is false: " + quoted(key) + " was added, but cell " + no + where + " was cleared since then." :
			"No: " + quoted(key) + " was certainly not added. Cell " + no + where + " is 0.", added ? "wrong" : "no", places);
	};
	// Without counters, removing zeroes cells that other keys may need. So does removing a key that was never added.
	const remove = key => {
		const places = placesOf(key);
		if (denying(places) !== undefined) return show(quoted(key) + " is not in the filter: nothing is removed.", "no", places);
		const before = deniedKeys(), added = keys.delete(key);
		clearPlaces(places);
		const lost = deniedKeys().filter(k => !before.includes(k));
		show("Removed " + quoted(key) + (added ? "" : ", which was never added") + ". " + (lost.length ?
			"Its cells were also those of " + listed(lost.map(quoted)) + ", which the filter now denies: a false no." :
			"No other key is denied."), lost.length ? "wrong" : "no", places);
	};
	// Words of three syllables, in an order that looks random.
	const word = n => {
		let rest = n * 366001 % 85 ** 3, text = "";
		for (let i = 0; i < 3; i++, rest = Math.floor(rest / 85)) text += "bdfghjklmnprstvwz"[rest % 17] + "aeiou"[Math.floor(rest % 85 / 17)];
		return text;
	};
	const search = () => {
		const most = 100000, rate = expectedRate(), expected = rate ? "; " + oneIn(rate) + " is expected" : "";
		if (rate === 0) return show("No key can pass: too few cells are set.", "no");
		for (let n = 1; n <= most; n++) {
			const key = word(++tried), places = placesOf(key);
			if (keys.has(key) || denying(places) !== undefined) continue;
			at("key").value = key;
			return show("Maybe, for " + quoted(key) + ", which was not added: a false yes, after " + plural(n, "word") +
				expected + ".", "wrong", places);
		}
		show(count(most) + " words were tried, and none passed" + expected + ".", "no");
	};

	kinds.forEach((k, i) => { element("option", k.name, at("kind")).value = i; });
	for (let k = 1; k <= 6; k++) element("option", k, at("bits"));
	at("bits").value = bits;
	const key = () => at("key").value || at("key").placeholder;
	at("form").addEventListener("submit", e => {
		e.preventDefault();
		add(key());
		at("key").value = "";
	});
	at("ask").addEventListener("click", () => ask(key()));
	at("remove").addEventListener("click", () => {
		remove(at("key").value || [...keys].at(-1) || key());
		at("key").value = "";
	});
	at("search").addEventListener("click", search);
	at("ten").addEventListener("click", () => {
		const before = cells.map(c => c > 0);
		for (let i = 0; i < 10; i++) {
			const key = nextFruit();
			keys.add(key);
			setPlaces(placesOf(key));
		}
		const fresh = [...cells.keys()].filter(p => cells[p] > 0 && !before[p]);
		show("Added ten keys, which set " + plural(fresh.length, "cell") + ".", "add", fresh, fresh);
	});
	const begin = text => {
		rebuild();
		drawCells();
		show(text, "add");
	};
	const changed = () => {
		kind = kinds[at("kind").value];
		bits = Number(at("bits").value);
		begin(keys.size ? "Another filter, with the same keys." : "The filter is empty: it says no to every key.");
	};
	at("kind").addEventListener("change", changed);
	at("bits").addEventListener("change", changed);
	at("empty").addEventListener("click", () => {
		keys.clear();
		begin("The filter is empty: it says no to every key.");
	});
	begin("The filter is empty: it says no to every key. Type a key, or add the one that is shown.");
})();

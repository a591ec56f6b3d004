"use strict";
(() => {
	const live = document.getElementById("live");
	if (!live || !window.EventSource || live.hasAttribute("data-closed")) return;
	const byID = id => document.getElementById(id);
	const most = 300, width = 240, height = 32, mostLogged = 20;

	const digits = v => String(Number(v.toPrecision(3)));
	const small = v => {
		const [mantissa, exponent] = v.toExponential(2).split("e-");
		return Number(mantissa) + "e-" + exponent.padStart(2, "0");
	};
	const number = v => {
		if (v > 0 && v < 1e-4) return small(v);
		if (v >= 9999.5)
			for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
				if (v >= size * 0.9995) return digits(v / size) + unit;
		return v >= 999.5 ? v.toFixed() : digits(v);
	};
	const bytes = v => {
		const units = ["B", "kB", "MB", "GB", "TB"];
		let i = 0;
		for (; v >= 999.5 && i + 1 !== units.length; i++) v /= 1000;
		return number(v) + " " + units[i];
	};
	const percent = v => number(100 * v) + " %";
	const format = {number, bytes, percent};
	const count = n => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
	const plural = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : noun.endsWith("sh") ? "es" : "s");
	const at = (sample, path) => path.split(".").reduce((o, name) => o[name], sample);

	const draw = (line, values, top) => line.setAttribute("points", values.map((v, i) => {
		const x = width - (values.length - 1 - i) * width / (most - 1);
		return x.toFixed() + "," + (height - 1 - (top > 0 ? v / top : 0) * (height - 2)).toFixed();
	}).join(" "));

	const numbers = text => text ? text.split(" ").map(Number) : [];
	const rows = [...live.querySelectorAll("tr[data-path]")].map(tr => {
		const d = tr.dataset, lines = tr.querySelectorAll("polyline");
		return {d, cells: tr.querySelectorAll("td"), lines, values: numbers(d.values), promises: numbers(d.promises)};
	});
	const keep = (values, v) => {
		if (values.push(v) > most) values.shift();
	};
	const show = (row, sample) => {
		const now = at(sample, row.d.path), minute = row.d.minute ? at(sample, row.d.minute) : null;
		row.cells[0].textContent = format[row.d.kind](now);
		if (minute !== null) row.cells[1].textContent = format[row.d.kind](minute);
		if (!row.lines.length) return;
		keep(row.values, minute === null ? now : minute);
		if (row.lines.length > 1) keep(row.promises, sample.fpr_promised);
		const top = Math.max(...row.values, ...row.promises);
		draw(row.lines[0], row.values, top);
		if (row.lines.length > 1) draw(row.lines[1], row.promises, top);
	};

	const list = (ul, lines) => ul.replaceChildren(...lines.map(line => {
		const li = document.createElement("li");
		li.textContent = line;
		return li;
	}));
	const work = w => (w.memtables ? ["flushing " + plural(w.memtables, "memtable") + ", " +
		percent(w.versions_flushed / Math.max(w.versions, 1)) + " done"] : []).concat((w.compactions || []).map(c =>
		"compacting level " + c.from + " into " + c.to + ": " + plural(c.tables, "table") + ", " + bytes(c.bytes) +
		", " + percent(c.versions_read / Math.max(c.versions, 1)) + " done"));
	const events = w => {
		const stalls = w.slowed_by_level0.count + w.stopped_by_level0.count + w.stopped_by_memtable.count;
		return [
			w.flushes && plural(w.flushes, "flush") + ", " + bytes(w.flush_bytes) + " written",
			w.ingests && plural(w.ingests, "ingest") + ", " + bytes(w.ingest_bytes),
			w.compactions && plural(w.compactions, "compaction") + ", " + bytes(w.compacted_bytes_read) + " read, " +
				bytes(w.compacted_bytes) + " written",
			w.moves && plural(w.moves, "table") + " moved to another level",
			stalls && plural(stalls, "stall") + " of writes",
		].filter(Boolean);
	};

	const shortage = s => s.budget_needed <= s.memory.budget ||
		s.fpr_promised <= s.fpr_asked && s.reads_promised <= 2 * s.fpr_asked ? "" :
		"Memory is too short for the filters that " + number(s.fpr_asked) + " wasted reads per absent key take: up to " +
		number(s.fpr_promised) + " are promised, and " + number(s.reads_promised) +
		" reads outside of memory in all. All filters need a MemoryBudget of " +
		count(Math.ceil(s.budget_needed / 2 ** 20)) + " MiB.";

	const state = text => {
		if (byID("live-state").textContent !== text) byID("live-state").textContent = text;
	};
	let last = live.dataset.time || "";
	const source = new EventSource("events");
	source.addEventListener("sample", e => {
		const sample = JSON.parse(e.data);
		state(!sample.warm ? "The store is open; its indexes and filters are being loaded." :
			sample.settled ? "The store is open and settled: nothing waits for a flush or a compaction." :
			"The store is open, with work in the background.");
		if (sample.time === last) return; // the page has it already, as after a lost connection
		last = sample.time;
		byID("live-memory").textContent = shortage(sample);
		rows.forEach(row => show(row, sample));
		list(byID("live-work"), work(sample.work));
		const happened = events(sample.writes).map(what => sample.time.slice(11, 19) + " " + what);
		if (happened.length) {
			const old = [...byID("live-log").children].map(li => li.textContent).filter(t => t !== "nothing yet");
			list(byID("live-log"), happened.concat(old).slice(0, mostLogged));
		}
	});
	source.addEventListener("closed", () => {
		source.close();
		state("The store is closed. The figures are the last ones.");
		list(byID("live-work"), []);
	});
	source.addEventListener("error", () => state(source.readyState === EventSource.CLOSED ?
		"There are no live figures: the store is closed, has too many viewers, or its server cannot stream." :
		"The connection is lost; trying again."));
})();

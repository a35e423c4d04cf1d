// The script of all pages: what is live, charts, questions before what cannot be undone, and the
// playground. Without it the pages show the same, once.
'use strict';

const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// answerMax is how long a part that renews itself waits for an answer, in milliseconds: a node may hang.
const answerMax = 5000;

// What renews itself stands still while the frame's button is pressed, which is there where something does.
const live = document.querySelector('[data-live]'), pause = document.querySelector('#pause');
const paused = () => pause.getAttribute('aria-pressed') === 'true';
if (pause) {
	pause.hidden = !document.querySelector('[data-live], .chart');
	pause.addEventListener('click', () => pause.setAttribute('aria-pressed', !paused()));
}

// Live parts renew themselves every second while the page is seen. A part in which somebody has
// the focus, or text selected, is left alone. A note says when a part stands still, and why.
if (live) {
	const note = Object.assign(document.createElement('p'), {className: 'stands'});
	note.setAttribute('role', 'status');
	live.after(note);
	const say = text => { if (note.textContent !== text) note.textContent = text; };
	const used = () => {
		const selected = getSelection();
		return live.contains(document.activeElement) || !selected.isCollapsed && live.contains(selected.anchorNode);
	};
	const still = () => paused() ? 'This page is paused.' : used() ? 'This part stands still while the focus, or a selection, is in it.' : '';
	const show = text => {
		const places = new Map(all('.wide', live).map(w => [w.getAttribute('aria-label'), w.scrollLeft]));
		live.innerHTML = text;
		all('.wide', live).forEach(w => { w.scrollLeft = places.get(w.getAttribute('aria-label')) ?? 0; });
		live.dataset.last = text;
	};
	let busy = false;
	setInterval(async () => {
		if (busy || document.hidden) return;
		if (still()) return say(still());
		busy = true;
		let answers = false;
		try {
			const answer = await fetch(location.href, {headers: {'X-Fragment': '1'}, signal: AbortSignal.timeout(answerMax)});
			if (answer.status === 401) return location.reload();
			const text = await answer.text();
			answers = answer.ok;
			if (answers && text !== live.dataset.last && !still()) show(text); // somebody may have come meanwhile
		} catch { } // the node is away
		live.classList.toggle('off', !answers);
		say(answers ? '' : 'What is shown is of before: now it cannot be read.');
		busy = false;
	}, 1000);
}

// What cannot be undone is asked first.
document.addEventListener('submit', e => {
	const sure = e.submitter?.dataset.sure;
	if (sure && !confirm(sure)) e.preventDefault();
});

// decimal, seconds and clock write what they get as the pages do: see format.go.
const decimal = v => {
	if (v == null) return '–';
	if (Math.abs(v) < 100) return String(Number(v.toPrecision(3)));
	return String(Math.round(v)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
};
const seconds = v => {
	if (v == null) return '–';
	return v < 1e-3 ? decimal(v * 1e6) + ' µs' : v < 1 ? decimal(v * 1e3) + ' ms' : decimal(v) + ' s';
};
const clock = t => t == null ? '–' : new Date(t * 1000).toISOString().slice(0, 19).replace('T', ' ');

// Charts. Looks are those of a chart's lines; the names of colors are those of the page, whose values may change.
const looks = [
	{color: '--accent', dash: [], border: 'solid'},
	{color: '--bad', dash: [2, 2], border: 'dotted'},
	{color: '--good', dash: [6, 3], border: 'dashed'},
];
const style = name => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class Chart {
	constructor(figure) {
		this.room = figure.querySelector('div');
		this.text = figure.dataset.unit === 's' ? seconds : decimal;
		this.names = figure.dataset.names.split(',');
		new ResizeObserver(() => this.plot?.setSize(this.size())).observe(this.room);
	}
	size() { return {width: Math.max(200, this.room.clientWidth), height: 190}; }
	draw(at, values) {
		const data = [at, ...this.names.map(n => values[n])];
		this.describe(values);
		if (this.plot) return this.plot.setData(data);
		const axis = {stroke: style('--dim'), grid: {stroke: style('--line')}, ticks: {stroke: style('--line')}};
		this.plot = new uPlot({
			...this.size(),
			cursor: {y: false, drag: {x: false}}, // each answer would end a zoom
			tzDate: t => uPlot.tzDate(new Date(t * 1000), 'Etc/UTC'), // as all times of the console
			scales: {y: {range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1]}},
			axes: [{...axis, space: 70, values: (_, ticks, index, space, step) => ticks.map(t => clock(t).slice(11, step < 60 ? 19 : 16))},
				{...axis, size: 70, values: (_, ticks) => ticks.map(this.text)}],
			legend: {markers: {stroke: (_, i) => `var(${looks[i - 1].color})`, dash: (_, i) => looks[i - 1].border}},
			series: [{label: 'UTC', value: (_, t) => clock(t)}, ...this.names.map((n, i) => ({label: n.replaceAll('_', ' '),
				stroke: style(looks[i].color), dash: looks[i].dash, width: 1.5, points: {show: false}, value: (_, v) => this.text(v)}))],
		}, data, this.room);
	}
	// describe says in words what is drawn.
	describe(values) {
		this.room.setAttribute('role', 'img');
		this.room.setAttribute('aria-label', this.names.map(n => {
			const there = values[n].filter(v => v != null), highest = there.length ? Math.max(...there) : null;
			return `${n.replaceAll('_', ' ')}: latest ${this.text(values[n].at(-1))}, highest ${this.text(highest)}`;
		}).join('; '));
	}
}

// All charts share one memory, which asks for what is new only.
const drawings = all('.chart').map(f => new Chart(f));
if (drawings.length) {
	const spans = {'15m': 900, '1h': 3600, '24h': 86400};
	let span = '15m', at, values, busy = false;
	const forget = () => { at = []; values = {}; };
	forget();
	const renew = async () => {
		if (document.hidden || busy) return;
		busy = true;
		const asked = at;
		try {
			const names = drawings.flatMap(d => d.names).join();
			const answer = await fetch(`/console/series?span=${span}&behind=${at.at(-1) ?? 0}&names=${names}`,
				{signal: AbortSignal.timeout(answerMax)});
			const fresh = answer.ok && await answer.json();
			if (fresh && asked === at) { // else another span was chosen meanwhile
				at.push(...fresh.at ?? []);
				const old = at.findIndex(t => t > at.at(-1) - spans[span]);
				at.splice(0, old);
				for (const l of fresh.lines) {
					(values[l.name] ??= []).push(...l.values ?? []);
					values[l.name].splice(0, old);
				}
				drawings.forEach(d => d.draw(at, values));
			}
		} catch { } // the node is away: the charts stay as they are
		busy = false;
	};
	all('[data-span]').forEach(b => b.addEventListener('click', () => {
		span = b.dataset.span;
		forget();
		all('[data-span]').forEach(o => o.setAttribute('aria-pressed', o === b));
		renew();
	}));
	renew();
	setInterval(() => paused() && at.length || renew(), 1000); // what was chosen is shown, also while the page is paused
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawings.forEach(d => d.plot?.redraw(false)));
}

// The playground: one conversation of the messages protocol, streamed.
class Playground {
	constructor(form) {
		this.form = form;
		this.turns = form.querySelector('#turns');
		this.messages = [];
		form.addEventListener('submit', e => { e.preventDefault(); this.send(); });
		all('[data-do]', form).forEach(b => b.addEventListener('click', () => this[b.dataset.do]()));
	}
	value(name) { return this.form.elements[name].value.trim(); }
	number(name) {
		const text = this.value(name), n = Number(text);
		if (!Number.isFinite(n)) throw new Error(`${name.replace('_', ' ')} is "${text}", want a number such as 256 or 0.7`);
		return text === '' ? undefined : n; // which JSON leaves out
	}
	tools() {
		if (!this.value('tools')) return undefined;
		try {
			return JSON.parse(this.value('tools'));
		} catch (e) {
			throw new Error('The tools are no JSON: ' + e.message);
		}
	}
	body() {
		const body = {model: this.value('model'), max_tokens: this.number('max_tokens') ?? 256, stream: true, messages: this.messages,
			temperature: this.number('temperature'), tools: this.tools()};
		if (this.value('system')) body.system = this.value('system');
		// Without the member a model thinks, so the empty box says that it should not.
		const thinks = this.form.elements.thinking.checked;
		body.thinking = thinks ? {type: 'enabled', budget_tokens: Math.max(1024, body.max_tokens >> 1)} : {type: 'disabled'};
		return body;
	}
	say(text) { document.querySelector('#usage').textContent = text; }
	// busy keeps a screen reader from speaking each piece of an answer: it speaks the whole.
	busy(is) { [this.turns, document.querySelector('#usage')].forEach(e => e.setAttribute('aria-busy', is)); }
	turn(role) {
		const div = document.createElement('div');
		div.className = 'turn ' + role;
		div.append(Object.assign(document.createElement('strong'), {textContent: role === 'user' ? 'You' : 'Model'}));
		this.turns.append(div);
		return div;
	}
	clear() {
		this.stop();
		this.messages = [];
		this.turns.replaceChildren();
		document.querySelector('#raw').textContent = '';
		this.say('');
	}
	stop() { this.leave?.abort(); }
	async curl() {
		let body;
		try { body = JSON.stringify({...this.body(), messages: [...this.messages, ...this.next()]}); } catch (e) { return this.say(e.message); }
		const text = `curl -N '${this.form.dataset.api}/v1/messages' -H "x-api-key: $API_KEY" -H 'content-type: application/json' -d '${body.replaceAll("'", "'\\''")}'`;
		await navigator.clipboard.writeText(text).then(() => this.say('Copied.'), () => { document.querySelector('#raw').textContent = text; });
	}
	// next is the message that goes out: the results of the calls that wait for one, and the text.
	next() {
		const content = all('[data-call]', this.turns).map(t => ({type: 'tool_result', tool_use_id: t.dataset.call, content: t.value}));
		if (this.value('message')) content.push({type: 'text', text: this.value('message')});
		return content.length ? [{role: 'user', content}] : [];
	}
	async send() {
		const stop = this.form.querySelector('[data-do=stop]');
		if (!stop.disabled) return; // one at a time
		const messages = this.messages, before = messages.length, shown = this.turns.children.length, said = this.value('message');
		messages.push(...this.next());
		let body;
		try { body = this.body(); } catch (e) { messages.length = before; return this.say(e.message); }
		const calls = all('[data-call]', this.turns).map(t => [t, t.dataset.call]);
		calls.forEach(([t]) => { delete t.dataset.call; t.readOnly = true; });
		if (said) this.turn('user').append(said);
		this.form.elements.message.value = '';
		this.form.elements.message.required = false;
		stop.disabled = false;
		this.busy(true);
		this.leave = new AbortController();
		const began = performance.now();
		try {
			const fields = new URLSearchParams({token: this.form.dataset.token, key: this.value('key'), body: JSON.stringify(body)});
			const answer = await fetch('/console/playground/messages', {method: 'POST', body: fields, signal: this.leave.signal});
			if (!answer.ok) throw new Error(await answer.text());
			messages.push(await this.read(answer.body, began));
		} catch (e) {
			this.stop(); // what nobody reads is not computed, nor paid
			if (messages === this.messages) { // else the conversation began anew
				this.say(e.name === 'AbortError' ? 'Stopped: the conversation is as it was before.' : e.message);
				messages.length = before;
				this.takeBack(shown, said, calls);
			}
		}
		this.busy(false);
		stop.disabled = true;
	}
	// takeBack undoes what a turn without an end has shown: the page has the messages that go out again, and no others.
	takeBack(shown, said, calls) {
		[...this.turns.children].slice(shown).forEach(turn => turn.remove());
		calls.forEach(([t, id]) => { t.dataset.call = id; t.readOnly = false; });
		const message = this.form.elements.message;
		message.value = [said, message.value].filter(Boolean).join('\n'); // the next may be half written
	}
	// read shows an answer as it comes, and returns it as the message that it is at its end.
	async read(stream, began) {
		const raw = document.querySelector('#raw'), turn = this.turn('assistant'), blocks = [];
		raw.textContent = '';
		const usage = {};
		let rest = '', first, whole = false;
		const reader = stream.pipeThrough(new TextDecoderStream()).getReader(); // Safari cannot iterate over a stream
		for (let piece; (piece = (await reader.read()).value) !== undefined;) {
			raw.append(piece);
			const lines = (rest + piece).split('\n');
			rest = lines.pop();
			for (const line of lines) {
				if (!line.startsWith('data: ')) continue;
				const event = JSON.parse(line.slice(6));
				Object.assign(usage, event.message?.usage, event.usage);
				if (event.type === 'content_block_start') blocks[event.index] = this.block(turn, event.content_block);
				if (event.type === 'content_block_delta') { first ??= performance.now(); blocks[event.index].add(event.delta); }
				if (event.type === 'message_stop') whole = true;
				if (event.type === 'error') throw new Error(event.error.message);
				const count = name => decimal(usage[name] ?? 0), since = t => seconds((t - began) / 1000);
				this.say(`${count('input_tokens')} input, ${count('cache_read_input_tokens')} from the cache, ${count('output_tokens')} output; ` +
					`first after ${first ? since(first) : '–'}, ${since(performance.now())} in all`);
			}
		}
		if (!whole) throw new Error('The answer broke off.');
		const message = {role: 'assistant', content: blocks.map(b => b.content())};
		blocks.forEach(b => b.wait());
		if (blocks.some(b => b.call)) this.say(document.querySelector('#usage').textContent + '. Fill in the results and send.');
		return message;
	}
	// block shows one content block as it grows, and gives it back for the next request.
	block(turn, start) {
		const made = {...start};
		let node, result, input = '';
		if (start.type === 'thinking') {
			const box = document.createElement('details');
			box.append(Object.assign(document.createElement('summary'), {textContent: 'Thinking'}));
			node = document.createTextNode('');
			box.append(node);
			turn.append(box);
		} else {
			node = document.createElement('div');
			turn.append(node);
		}
		const call = start.type === 'tool_use';
		if (call) {
			result = Object.assign(document.createElement('textarea'), {rows: 2, placeholder: 'the result of ' + start.name});
			result.setAttribute('aria-label', 'Result of ' + start.name);
			turn.append(result);
			node.textContent = start.name + ' ';
		}
		return {
			call,
			add: d => {
				if (d.text) { made.text += d.text; node.append?.(d.text); }
				if (d.thinking) { made.thinking += d.thinking; node.appendData(d.thinking); }
				if (d.signature) made.signature = d.signature;
				if (d.partial_json) { input += d.partial_json; node.append(d.partial_json); }
			},
			wait: () => { if (call) result.dataset.call = start.id; }, // for its result, which goes out once the call is in the messages
			content: () => call ? {...made, input: JSON.parse(input || '{}')} : made,
		};
	}
}
all('#playground').forEach(f => new Playground(f));

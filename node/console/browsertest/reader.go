package browsertest

// readerRules checks, of the success criteria of WCAG 2.2: 1.1.1 and 4.1.2 (what can be used has
// a name, each button one of its own), 1.3.1 (tables have headers, fields labels, headings no gaps), 1.4.3 (contrast of text),
// 2.1.1 (what scrolls can be reached by key), 2.4.1 (a way past the navigation), 2.4.2 (a title),
// 3.1.1 (a language), 4.1.1 (ids once).
const readerRules = `(() => {
	const found = [], say = (rule, e) => found.push(rule + ': ' + (e ? e.outerHTML.slice(0, 160) : ''));
	const seen = e => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== 'hidden';
	const all = s => [...document.querySelectorAll(s)].filter(seen);
	const name = e => (e.getAttribute('aria-label') || e.labels && [...e.labels].map(l => l.textContent).join(' ') || e.textContent || e.title || '').trim();
	if (!document.documentElement.lang) say('language');
	if (!document.title.trim()) say('title');
	if (all('main').length !== 1) say('one main part');
	if (all('h1').length !== 1) say('one first heading');
	if (document.querySelector('nav') && !document.querySelector('a.skip[href="#main"]')) say('a way past the navigation');
	let level = 0;
	for (const h of all('h1,h2,h3,h4')) {
		const next = Number(h.tagName[1]);
		if (next > level + 1) say('heading after a gap', h);
		level = next;
	}
	for (const e of all('a,button,input:not([type=hidden]),select,textarea,summary')) if (!name(e)) say('no name', e);
	const buttons = new Set();
	for (const e of all('button')) { if (buttons.has(name(e))) say('two buttons of one name', e); buttons.add(name(e)); }
	for (const e of all('img')) if (!e.hasAttribute('alt')) say('no text for an image', e);
	for (const t of all('table')) if (!t.querySelector('th')) say('table without headers', t);
	const ids = new Set();
	for (const e of document.querySelectorAll('[id]')) { if (ids.has(e.id)) say('id twice', e); ids.add(e.id); }
	for (const e of all('*')) {
		const s = getComputedStyle(e);
		if (/auto|scroll/.test(s.overflowX + s.overflowY) && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1) &&
			e.tabIndex < 0 && !e.querySelector('a,button,input,select,textarea') && e !== document.scrollingElement) say('cannot be scrolled by key', e);
	}
	const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const colour = text => (text.match(/[\d.]+/g) || []).map(Number);
	const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
	const ground = e => { for (; e; e = e.parentElement) { const c = colour(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
	const fade = e => { let part = 1; for (; e; e = e.parentElement) part *= getComputedStyle(e).opacity; return part; };
	const mixed = (c, g, part) => c.slice(0, 3).map((v, i) => part * v + (1 - part) * g[i]);
	for (const e of all('*')) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || e.closest('.u-wrap') || e.disabled) continue;
		const s = getComputedStyle(e), behind = ground(e), g = light(behind), a = light(mixed(colour(s.color), behind, fade(e))), size = parseFloat(s.fontSize);
		if (s.color.startsWith('color') || getComputedStyle(e).backgroundColor.startsWith('color')) continue;
		const ratio = (Math.max(a, g) + 0.05) / (Math.min(a, g) + 0.05);
		if (ratio < (size >= 24 ? 3 : 4.5)) say('contrast ' + ratio.toFixed(2), e);
	}
	return found;
})()`

// The viewer of a report. Everything it shows comes from sandboxes, so all of it is set
// as text, never as markup. It works from file:// too: rollouts that are not in the page
// are fetched by script elements, since a page without a server may not fetch.
const orchard = (() => {
  'use strict';
  const mostListed = 500, mostFailed = 12, mostLines = 5000;
  let rows = new Map();     // id -> its line of the index, in the order of the list
  const loaded = new Map(); // id -> trajectory
  const asked = new Set();  // script files under way
  let wanted = null, current = null, at = 0, task = null, kind = null, indexed = false;

  const $ = id => document.getElementById(id);
  const el = (tag, cls, ...inside) => {
    const e = document.createElement(tag);
    if (cls) e.className = cls;
    e.append(...inside);
    return e;
  };
  const button = (cls, text, act) => {
    const b = el('button', cls, text);
    b.onclick = act;
    return b;
  };
  // plain makes visible what would move, hide or reorder text: control characters as
  // their pictures, and marks of writing direction by number.
  const plain = text => text
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, c => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, c => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
  const tag = (cls, text) => el('span', `tag ${cls}`, plain(text));
  const time = ms => ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;

  // ---- what the script files call ----

  function row(id, task, n, policy, harness, outcome, cls, exit, steps, file) {
    return { id, task, n, policy, harness, outcome, cls, exit, steps, file: file === null ? '' : `trajectories-${String(file).padStart(5, '0')}.js` };
  }
  function index(list) {
    indexed = true;
    rows = new Map(list.map(r => [r[0], row(...r)]));
  }
  function add(list) {
    for (const t of list) loaded.set(t.id, t);
    if (wanted && loaded.has(wanted)) show(wanted);
  }

  // ---- the list ----

  function search(r) { return `${r.id} ${r.task} #${r.n} ${r.policy} ${r.harness} ${r.outcome} ${r.exit}`.toLowerCase(); }

  function fill() {
    const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
    const here = [...rows.values()].filter(r => (!task || r.task === task) && words.every(w => search(r).includes(w)));
    const kinds = new Map();
    for (const r of here) kinds.set(r.outcome, { n: (kinds.get(r.outcome)?.n ?? 0) + 1, cls: r.cls });
    if (kind && !kinds.has(kind)) kinds.set(kind, { n: 0, cls: 'none' });
    $('kinds').replaceChildren(...[...kinds].map(([name, k]) =>
      button(`tag ${k.cls}${kind === name ? ' on' : ''}`, plain(`${name} ${k.n}`), () => { kind = kind === name ? null : name; fill(); })));
    if (task) $('kinds').prepend(button('tag plain on', plain(`task ${task} ✕`), () => { task = null; fill(); }));

    const found = here.filter(r => !kind || r.outcome === kind), shown = found.slice(0, mostListed);
    const several = f => new Set(shown.map(f)).size > 1;
    const who = [r => r.policy, r => r.harness].filter(several);
    const wide = Math.max(0, ...shown.map(r => r.outcome.length));
    $('list').replaceChildren(...shown.map(r => {
      const o = el('option', r.cls, plain(`${r.outcome.padEnd(wide, '\u00a0')} ${r.task} #${r.n} · ${r.steps} steps · ${r.exit || 'not played'}${who.map(f => ' · ' + f(r)).join('')}`));
      o.value = r.id;
      o.selected = r.id === (wanted ?? current?.id);
      return o;
    }));
    $('count').textContent = found.length > shown.length ? `the first ${shown.length} of ${found.length} rollouts; filter to see others` : `${found.length} of ${rows.size} rollouts`;
  }

  function trouble(text) {
    $('trouble').textContent = text;
    $('trouble').hidden = !text;
  }

  // pick shows a rollout, from its script file when it is not here yet.
  function pick(id, step = 0) {
    wanted = id;
    at = step;
    trouble('');
    if (loaded.has(id)) return show(id);
    $('one').hidden = true;
    const file = rows.get(id).file;
    if (asked.has(file)) return;
    asked.add(file);
    trouble(`loading ${file} …`);
    const s = el('script'), failed = why => { asked.delete(file); s.remove(); if (wanted && rows.get(wanted).file === file) trouble(why); };
    s.src = file;
    s.onerror = () => failed(`${file} is not beside this page; keep the folder of the report together.`);
    s.onload = () => failed(`${file} does not hold this rollout; it is of another report.`); // add was called before
    document.body.append(s);
  }

  // ---- one trajectory ----

  function show(id) {
    wanted = null;
    trouble('');
    const t = current = loaded.get(id);
    $('one').hidden = false;
    $('title').textContent = plain(`${t.task} #${t.index}`);
    const facts = [`ended by ${t.exit || 'nothing: not played'}${t.detail && t.detail.toLowerCase() !== t.exit ? ` (${t.detail})` : ''}`, `${t.policy} in ${t.harness}`, `${t.steps.length} steps`, time(t.ms)];
    if (t.tokens !== null) facts.splice(3, 0, `${t.tokens} tokens`);
    $('facts').replaceChildren(plain(facts.join(' · ')), el('br'), 'rollout ', el('code', 'id', t.id));
    verdict(t);
    $('steps').replaceChildren(...Array.from({ length: t.steps.length + 1 }, (_, n) => {
      const b = button(n ? state(t.steps[n - 1]) : '', n ? String(n) : 'start', () => go(n));
      if (n) b.title = about(t.steps[n - 1]);
      if (t.curves.some(c => c.segments.some(s => s.begin < n && n <= s.end))) b.classList.add('trained');
      return b;
    }));
    $('curves').replaceChildren(...t.curves.map(curve));
    $('tests').textContent = `tests ${t.tests.length || ''}`;
    step(at);
  }

  // fails is what grading holds against a rollout: a skipped test proves no fix, but breaks nothing.
  const fails = r => !['passed', 'xfail', 'xpass'].includes(r.status) && !(r.status === 'skipped' && r.kind === 'pass_to_pass');

  function verdict(t) {
    const failed = t.tests.filter(fails);
    const box = $('verdict');
    box.className = t.class;
    box.replaceChildren(el('p', '', tag(t.class, t.outcome), ` ${t.reward === null ? 'no reward' : `reward ${t.reward}`} · `, plain(t.reason)));
    if (failed.length) {
      box.append(el('ul', '', ...failed.slice(0, mostFailed).map(r => el('li', '', tag('bad', r.status), ' ', plain(r.name), el('small', '', plain(` ${r.kind}`))))));
      if (failed.length > mostFailed) box.append(button('', `… and ${failed.length - mostFailed} more`, tests));
    }
    for (const d of t.dropped) box.append(el('p', 'sub', plain(`left out of the diff: ${d}`)));
  }

  // state is the colour of a step, about its words.
  function state(s) {
    if (s.error) return 'some';
    return s.actions.some(a => a.timed_out || a.exit !== 0) ? 'bad' : '';
  }
  const ended = a => a.timed_out ? 'timed out' : a.exit === null ? 'not run' : `exit ${a.exit}`;
  const about = s => s.error ? 'malformed answer' : s.actions.map(ended).join(', ') || 'no action';
  const result = a => tag(a.timed_out || a.exit !== 0 ? 'bad' : 'good', `${ended(a)} · ${time(a.ms)}`);

  // curve draws how likely success was in each state: state n is what there is after step n.
  function curve(c) {
    const n = c.values.length - 1, svg = (tag, cls, attributes) => {
      const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
      e.setAttribute('class', cls);
      for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
      return e;
    };
    const box = el('div', 'curve', el('p', 'sub', plain(c.title)));
    if (n < 1) return box;
    const y = v => (1.05 - v) / 1.1, picture = svg('svg', '', { viewBox: `0 0 ${n} 1`, preserveAspectRatio: 'none', role: 'img', 'aria-label': plain(c.title) });
    for (const s of c.segments) picture.append(svg('rect', 'trained', { x: s.begin, y: 0, width: s.end - s.begin, height: 1 }));
    picture.append(svg('rect', 'at', { x: -1, y: 0, width: 1, height: 1 }));
    let d = '', pen = 'M';
    c.values.forEach((v, i) => {
      if (v === null) return pen = 'M';
      d += `${pen}${i} ${y(v)}`;
      if (pen === 'M' && (c.values[i + 1] ?? null) === null) d += 'h0'; // alone
      pen = 'L';
    });
    picture.append(svg('path', '', { d }));
    for (const k of c.keys) {
      const dot = svg('path', 'key', { d: `M${k.state} ${y(k.p)}h0` }), words = svg('title', '', {});
      words.textContent = plain(`step ${k.step + 1}: ${k.p}. ${k.why}`);
      dot.append(words);
      picture.append(dot);
    }
    picture.onclick = e => {
      const r = picture.getBoundingClientRect();
      go(Math.floor((e.clientX - r.left) / r.width * n) + 1);
    };
    box.append(picture);
    return box;
  }

  // message is one message; the answer to a call stands below the call.
  function message(m, answers) {
    const box = el('div', `msg ${m.role}${m.kept ? '' : ' dropped'}`);
    const actions = current.steps[m.step]?.actions ?? [];
    const head = el('h4', '', plain(m.role), m.kept ? '' : ' · rejected: the policy did not see this again');
    box.append(head);
    if (m.role !== 'assistant') {
      const a = m.call ? actions.find(a => a.call === m.call) : actions.length === 1 && !actions[0].call ? actions[0] : null;
      if (a) head.append(' ', result(a));
    }
    if (m.reasoning && m.reasoning !== m.content) box.append(el('h4', '', 'reasoning'), el('pre', 'soft', plain(m.reasoning)));
    if (m.content) box.append(el('pre', '', plain(m.content)));
    for (const c of m.calls) {
      let args = c.args;
      try { const a = JSON.parse(c.args); if (typeof a.command === 'string') args = a.command; } catch { /* shown as sent */ }
      const a = actions.find(a => a.call && a.call === c.id);
      box.append(el('h4', '', plain(`call ${c.name} `), a ? result(a) : ''), el('pre', 'command', plain(args)));
      const said = answers.get(c.id);
      if (said) box.append(el('pre', '', plain(said.content)));
    }
    return box;
  }

  // stretch is the messages of a step, or of the opening for n = 0.
  function stretch(n) {
    const nodes = [], s = current.steps[n - 1];
    if (s) {
      const facts = [`step ${n}`, s.finish && `finished by ${s.finish}`, s.completion !== null && `${s.completion} tokens`, s.ms && `model ${time(s.ms)}`, s.error && 'malformed answer'];
      nodes.push(el('p', 'sub', plain(facts.filter(Boolean).join(' · '))));
    }
    for (const c of current.curves) for (const k of c.keys) {
      if (k.step === n - 1) nodes.push(el('p', 'sub', plain(`looking back, the teacher gives success a probability of ${k.p} ${c.moment} this step: ${k.why}`)));
    }
    const here = current.messages.filter(m => m.step === n - 1);
    const calls = new Set(here.flatMap(m => m.calls.map(c => c.id)));
    const answers = new Map(here.filter(m => m.call && calls.has(m.call)).map(m => [m.call, m]));
    nodes.push(...here.filter(m => answers.get(m.call) !== m).map(m => message(m, answers)));
    for (const a of s?.actions ?? []) {
      if (a.output) nodes.push(el('div', 'msg tool', el('h4', '', 'output that the policy did not see ', result(a)), el('pre', '', plain(a.output))));
    }
    return nodes;
  }

  function tab(name, ...nodes) {
    for (const b of ['all', 'diff', 'tests', 'log']) $(b).classList.toggle('on', b === name);
    [...$('steps').children].forEach((b, n) => b.classList.toggle('on', !name && n === at));
    $('where').textContent = name === 'all' || !name ? `${at && !name ? `step ${at} of ` : ''}${current.steps.length} steps` : '';
    $('body').replaceChildren(...nodes);
  }
  function step(n) {
    at = Math.max(0, Math.min(n, current.steps.length));
    tab('', ...stretch(at));
    for (const r of document.querySelectorAll('.curve .at')) r.setAttribute('x', at - 1);
    $('prev').disabled = at === 0;
    $('next').disabled = at === current.steps.length;
    const on = $('steps').children[at], box = $('steps');
    box.scrollTop = on.offsetTop - box.offsetTop - box.clientHeight / 2;
    location.replace(`#${current.id}/${at}`);
  }
  // go is step for somebody who is reading: the new step is read from its top.
  function go(n) {
    step(n);
    if ($('body').getBoundingClientRect().top < 0) $('body').scrollIntoView();
  }
  function all() { tab('all', ...Array.from({ length: current.steps.length + 1 }, (_, n) => stretch(n)).flat()); }
  function diff() {
    const pre = el('pre'), lines = (current.diff || '(no change)').replace(/\n$/, '').split('\n');
    for (const line of lines.slice(0, mostLines)) {
      const cls = /^(\+\+\+|---|diff )/.test(line) ? 'file' : { '+': 'add', '-': 'del', '@': 'at' }[line[0]] ?? '';
      pre.append(el('span', cls, plain(line) + '\n'));
    }
    if (lines.length > mostLines) pre.append(plain(lines.slice(mostLines).join('\n')));
    tab('diff', pre);
  }
  function tests() {
    if (!current.tests.length) return tab('tests', el('p', 'sub', 'No test was run.'));
    const order = [...current.tests].sort((a, b) => fails(b) - fails(a));
    tab('tests', el('div', 'scroll', el('table', '', ...order.map(t =>
      el('tr', '', el('td', '', tag(fails(t) ? 'bad' : 'good', t.status)), el('td', '', plain(t.kind)), el('td', 'long', plain(t.name)))))));
  }
  function log() { tab('log', el('pre', '', plain(current.log || '(no test was run)'))); }

  // ---- the page ----

  // sorting of the table of tasks by a column; again for the other way.
  function sorting(table) {
    let column = 0, down = false;
    const value = tr => tr.cells[column].dataset.value ?? tr.cells[column].textContent;
    const compare = (a, b) => a - b || a.localeCompare(b, 'en', { numeric: true });
    table.querySelectorAll('th').forEach((th, n) => th.querySelector('button')?.addEventListener('click', () => {
      down = n === column && !down;
      column = n;
      const order = [...table.tBodies[0].rows].sort((a, b) => compare(value(a), value(b)));
      table.tBodies[0].append(...(down ? order.reverse() : order));
    }));
  }

  function first() {
    fill();
    if ($('list').options.length) { $('list').selectedIndex = 0; pick($('list').value); }
  }
  function hash() {
    const [id, n] = location.hash.slice(1).split('/');
    if (!rows.has(id) || (current?.id === id && String(at) === n)) return rows.has(id);
    pick(id, Number(n) || 0);
    fill();
    return true;
  }

  document.addEventListener('DOMContentLoaded', () => {
    const samples = JSON.parse($('samples').textContent);
    add(samples);
    if (!indexed) {
      rows = new Map(samples.map(t => [t.id, row(t.id, t.task, t.index, t.policy, t.harness, t.outcome, t.class, t.exit, t.steps.length, null)]));
    }
    $('filter').oninput = fill;
    $('list').onchange = e => pick(e.target.value);
    $('prev').onclick = () => go(at - 1);
    $('next').onclick = () => go(at + 1);
    Object.entries({ all, diff, tests, log }).forEach(([id, act]) => { $(id).onclick = act; });
    document.onkeydown = e => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!by || !current || $('one').hidden || e.target.tagName === 'INPUT' || e.altKey || e.ctrlKey || e.metaKey || e.shiftKey) return;
      e.preventDefault();
      go(at + by);
    };
    for (const a of document.querySelectorAll('[data-task]')) a.onclick = e => {
      e.preventDefault();
      [task, kind, $('filter').value] = [a.dataset.task, null, ''];
      first();
      $('viewer').scrollIntoView();
    };
    for (const a of document.querySelectorAll('#grid a')) a.onclick = e => {
      e.preventDefault();
      const id = decodeURIComponent(a.hash.slice(1));
      if (!rows.has(id)) return trouble('index.js is not beside this page, so only the samples in it can be shown.');
      task = kind = null;
      document.querySelector('#grid .here')?.classList.remove('here');
      a.classList.add('here');
      $('filter').value = '';
      pick(id);
      fill();
      $('one').scrollIntoView();
    };
    if ($('tasks')) sorting($('tasks'));
    window.onhashchange = hash;
    fill();
    if (!hash()) first();
    if (!indexed) trouble('index.js is not beside this page: only the samples that lie in the page are listed.');
  });
  return { index, add };
})();

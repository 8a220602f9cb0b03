// The viewer of a report. Everything it shows comes from sandboxes, so all of it is
// set as text, never as markup. It works from file:// too: rollouts that are not in the
// page are fetched by script elements, since a page without a server may not fetch.
const orchard = (() => {
  const rows = new Map(), order = [], loaded = new Map();
  let current = null, at = 0, waiting = null;
  const $ = id => document.getElementById(id);
  const el = (tag, cls, text) => {
    const e = document.createElement(tag);
    if (cls) e.className = cls;
    if (text !== undefined) e.textContent = text;
    return e;
  };

  // index is [id, task, rollout index, outcome, exit status, steps, file].
  function index(list) {
    for (const [id, task, n, outcome, exit, steps, file] of list) {
      rows.set(id, { id, file, label: `${task} #${n}  ${outcome}  ${exit}  ${steps} steps` });
      order.push(id);
    }
  }
  function add(list) {
    for (const t of list) loaded.set(t.id, t);
    if (waiting && loaded.has(waiting)) show(waiting);
  }

  function fill() {
    const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = order.filter(id => words.every(w => rows.get(id).label.toLowerCase().includes(w)));
    $('list').replaceChildren(...found.slice(0, 500).map(id => {
      const o = el('option', '', rows.get(id).label);
      o.value = id;
      return o;
    }));
  }

  function pick(id) {
    waiting = id;
    $('trouble').hidden = true;
    if (loaded.has(id)) return show(id);
    const s = document.createElement('script');
    s.src = rows.get(id).file;
    s.onerror = () => { $('trouble').textContent = `${rows.get(id).file} is not beside this page; copy the whole folder.`; $('trouble').hidden = false; };
    document.head.append(s);
  }

  function show(id) {
    waiting = null;
    current = loaded.get(id);
    at = 0;
    $('one').hidden = false;
    $('head').textContent = `${current.task} #${current.index} · ${current.outcome} · ended by ${current.exit} · ${current.policy} in ${current.harness} · ${id.slice(0, 12)}`;
    $('reason').textContent = current.reason;
    step(0);
  }

  function message(m) {
    const box = el('div', `msg ${m.role}${m.kept ? '' : ' dropped'}`);
    box.append(el('h3', '', m.role + (m.kept ? '' : ' (rejected: the policy did not see this again)')));
    if (m.reasoning) box.append(el('pre', '', m.reasoning));
    if (m.content) box.append(el('pre', '', m.content));
    for (const c of m.calls) {
      let args = c.args;
      try { const a = JSON.parse(c.args); if (typeof a.command === 'string') args = a.command; } catch { /* shown as sent */ }
      box.append(el('h3', '', c.name), el('pre', '', args));
    }
    return box;
  }

  const mark = id => ['all', 'diff', 'tests'].forEach(b => $(b).classList.toggle('on', b === id));
  const body = (...nodes) => $('body').replaceChildren(...nodes);

  function step(n) {
    const last = current.steps;
    at = Math.max(0, Math.min(n, last));
    mark('');
    $('where').textContent = at === 0 ? `opening of ${last} steps` : `step ${at} of ${last}`;
    body(...current.messages.filter(m => m.step === at - 1).map(message));
  }
  function all() { mark('all'); $('where').textContent = 'all steps'; body(...current.messages.map(message)); }
  function diff() {
    mark('diff');
    const pre = el('pre');
    for (const line of (current.diff || '(no change)').split('\n')) {
      const cls = line.startsWith('+') ? 'add' : line.startsWith('-') ? 'del' : line.startsWith('@@') ? 'at' : '';
      pre.append(el('span', cls, line + '\n'));
    }
    body(pre);
  }
  function tests() {
    mark('tests');
    if (!current.tests.length) return body(el('p', 'sub', 'No test was run.'));
    const table = el('table');
    for (const t of current.tests) {
      const tr = el('tr');
      tr.append(el('td', '', t.status), el('td', '', t.kind), el('td', '', t.name));
      table.append(tr);
    }
    body(table);
  }

  function start() {
    fill();
    $('filter').oninput = fill;
    $('list').onchange = e => pick(e.target.value);
    $('prev').onclick = () => step(at - 1);
    $('next').onclick = () => step(at + 1);
    $('all').onclick = all;
    $('diff').onclick = diff;
    $('tests').onclick = tests;
    document.onkeydown = e => {
      if (!current || e.target.tagName === 'INPUT' || e.target.tagName === 'SELECT') return;
      if (e.key === 'ArrowLeft') step(at - 1);
      if (e.key === 'ArrowRight') step(at + 1);
    };
    if (order.length) { $('list').selectedIndex = 0; pick($('list').value); }
  }
  return { index, add, start };
})();

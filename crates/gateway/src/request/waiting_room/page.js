(() => {
  'use strict';
  const body = document.body.dataset;
  const element = id => document.getElementById(id);
  const form = element('form');
  // Files that are sent too early would have to be chosen once more.
  const send = document.querySelector('#form [required]') && document.querySelector('#form > button');
  if (send) send.disabled = true;
  let end = Date.now() + Number(body.left);
  let total = Math.max(1, Number(body.total));
  // What is said in place of a time that is not known; the page is loaded again then, and says more.
  const unknown = body.unknown;
  let gone = false;
  // A part of the page asked for, which only the browser knows.
  const hash = location.hash;
  const two = n => String(n).padStart(2, '0');
  const clock = s => {
    const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
    return (h ? h + ':' + two(m) : m) + ':' + two(s % 60);
  };
  const show = () => {
    const day = end - Date.now() < 72e6 ? {timeStyle: 'medium'} : {dateStyle: 'medium', timeStyle: 'medium'};
    element('at').textContent = unknown || new Date(end).toLocaleString(document.documentElement.lang, day);
  };
  const enter = () => {
    if (gone) return;
    gone = true;
    if (send) send.disabled = false;
    if (form) {
      // The browser says which file is still to be chosen; its visitor sends the form then.
      const methods = HTMLFormElement.prototype;
      if (methods.reportValidity.call(form)) methods.submit.call(form);
    } else if (body.to) {
      // To the same address and a part of it a browser goes without asking for it.
      if (hash && body.to.startsWith('/')) {
        history.replaceState(null, '', body.to + (body.to.includes('?') ? '&' : '?'));
      }
      location.replace(body.to + hash);
    }
  };
  const tick = () => {
    const left = end - Date.now();
    if (!unknown) {
      element('left').textContent = clock(Math.max(0, Math.ceil(left / 1000)));
      element('progress').value = Math.min(100, Math.max(0, 100 * (1 - left / total)));
    }
    if (left <= 0) enter();
  };
  const ask = () => fetch(body.ask, {cache: 'no-store', headers: {accept: 'application/json'}})
    .then(answer => answer.ok ? answer.json() : null)
    .then(said => {
      if (!said || gone || !Number.isFinite(said.left_ms)) return;
      // Now it is known, or not any more: the answer to him says which.
      if (!said.time !== !!unknown) return enter();
      end = Date.now() + said.left_ms;
      element('ahead').textContent = said.ahead;
      show();
      tick();
    })
    .catch(() => {});
  // A page that was asleep, or comes back from the browser's memory, knows the time but not what happened since.
  document.addEventListener('visibilitychange', () => { if (!document.hidden) { tick(); ask(); } });
  addEventListener('pageshow', event => { if (event.persisted) { gone = false; ask(); } });
  show();
  tick();
  setInterval(tick, 250);
  setInterval(ask, Number(body.every));
  // Only there a reload keeps the place.
  if (body.stay) {
    history.replaceState(null, '', body.stay + hash);
    const keep = element('keep');
    if (keep) keep.hidden = false;
  }
})();

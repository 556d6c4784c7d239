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
  const unknown = body.unknown || '–';
  let known = !body.unknown;
  let gone = false;
  // Whether he is in, and no other page has come.
  let entered = false;
  // Whether he was told that his time has come.
  let called = false;
  let alarm;
  // A part of the page asked for, which only the browser knows.
  const hash = location.hash;
  const lang = document.documentElement.lang;
  // As it is written where he lives, if he reads this language.
  const locale = (navigator.languages || []).find(one => one.split('-')[0] === lang) || lang;
  // What has not changed stays as it is, under a selection and for who listens.
  const put = (id, text) => { if (element(id).textContent !== text) element(id).textContent = text; };
  const two = n => String(n).padStart(2, '0');
  const clock = s => {
    const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
    return (h ? h + ':' + two(m) : m) + ':' + two(s % 60);
  };
  const show = () => {
    const day = end - Date.now() < 72e6 ? {timeStyle: 'medium'} : {dateStyle: 'medium', timeStyle: 'medium'};
    // In the figures of the clock below it.
    put('at', known ? new Date(end).toLocaleString(locale, {numberingSystem: 'latn', ...day}) : unknown);
  };
  // Who listens is told how long it still is at few moments: in whole hours, from half an hour on at these minutes.
  let told;
  const tell = minutes => {
    const mark = minutes > 30 ? 60 * Math.ceil(minutes / 60) : [1, 2, 5, 10, 30].find(mark => minutes <= mark);
    if (mark === told) return;
    const [count, unit] = minutes < 120 ? [minutes, 'minute'] : [Math.round(minutes / 60), 'hour'];
    let span = clock(60 * minutes);
    try {
      span = new Intl.NumberFormat(locale, {style: 'unit', unit, unitDisplay: 'long', numberingSystem: 'latn'}).format(count);
    } catch (tooOld) {}
    if (told) put('told', element('left').parentNode.previousElementSibling.textContent + ': ' + span);
    told = mark;
  };
  const go = () => {
    if (gone) return;
    gone = true;
    if (form) return HTMLFormElement.prototype.submit.call(form);
    // To the same address and a part of it a browser goes without asking for it.
    if (hash && body.to.startsWith('/')) {
      history.replaceState(null, '', body.to + (body.to.includes('?') ? '&' : '?'));
    }
    location.replace(body.to + hash);
  };
  const enter = () => {
    if (gone || called) return;
    called = true;
    if (send) send.disabled = false;
    // The browser says which file is still to be chosen; its visitor sends the form then.
    if (form ? !HTMLFormElement.prototype.reportValidity.call(form) : !body.to) return;
    if (navigator.onLine) return go();
    // A laptop that has just woken has no network yet: the browser's own page about that would take the place of this one, and of its
    // form. A browser may say so, too, where it is on the server's own machine.
    fetch(body.ask, {cache: 'no-store'}).then(go, () => setTimeout(() => { called = false; }, 1000));
  };
  // What takes no page's place, as a file to save, leaves this one: the answer has taken the token away. A form that was sent stays,
  // since its visitor may want to send it once more.
  const arrive = () => {
    if (entered) return;
    entered = true;
    document.querySelector('main').replaceChildren(element('entered').content);
    document.title = document.querySelector('h1').textContent;
  };
  const tick = () => {
    if (entered) return;
    const left = end - Date.now();
    put('left', known ? clock(Math.max(0, Math.ceil(left / 1000))) : '–');
    if (known) {
      element('progress').value = Math.min(100, Math.max(0, 100 * (1 - left / total)));
      if (left > 0) tell(Math.ceil(left / 6e4));
    }
    if (left > 0) {
      called = false;
      if (send) send.disabled = true;
    } else if (known || !form) enter();
  };
  // In a tab that is long out of sight a browser lets what repeats itself run once a minute, what runs once each second.
  const wake = () => {
    clearTimeout(alarm);
    alarm = setTimeout(tick, Math.min(2 ** 31 - 1, Math.max(0, end - Date.now()) + 250));
  };
  const ask = () => fetch(body.ask, {cache: 'no-store', headers: {accept: 'application/json'}})
    .then(answer => {
      if (gone && !form && answer.status === 404) arrive();
      return answer.ok ? answer.json() : null;
    })
    .then(said => {
      if (!said || gone || entered || !Number.isFinite(said.left_ms)) return;
      // Now it is known, or not any more: the answer to him says which. A form stays where it is, with the files that are chosen.
      if (!said.time === known) {
        if (!form) return enter();
        known = !known;
        total = Math.max(1, said.left_ms);
      }
      end = Date.now() + said.left_ms;
      put('ahead', String(said.ahead));
      show();
      tick();
      wake();
    })
    .catch(() => {});
  // A page that was asleep, or comes back from the browser's memory, knows the time but not what happened since.
  document.addEventListener('visibilitychange', () => { if (!document.hidden) { tick(); ask(); } });
  // A form that has been sent is sent once more by its button only.
  addEventListener('submit', () => { gone = true; });
  addEventListener('pageshow', event => {
    if (!event.persisted || entered) return;
    called = gone && form !== null;
    gone = false;
    ask();
  });
  show();
  tick();
  wake();
  setInterval(tick, 250);
  // It is all here now: the browser's own way on would load the page anew under who reads or hears it, whatever has been said since.
  addEventListener('load', () => setTimeout(() => { if (!gone) stop(); }, 500));
  // The nearer his time the more often: who is next in line may be called before it.
  const later = () => {
    const left = end - Date.now(), every = Number(body.every);
    const next = gone && !form ? 2000 : known && left > 0 ? Math.min(every, Math.max(1000, left / 4)) : every;
    setTimeout(() => { if (!entered) { ask(); later(); } }, next);
  };
  later();
  // Only there a reload keeps the place.
  if (body.stay) {
    history.replaceState(null, '', body.stay + hash);
    const keep = element('keep');
    if (keep) keep.hidden = false;
  }
})();

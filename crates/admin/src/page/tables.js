"use strict";
// Tables and figures of the admin page. Text goes into the page as text only, since names come from clients.

const MIB = 1 << 20;
// More than this a cell may have to cut short; the pointer shows the whole.
const SHORT = 24;
const byId = (id) => document.getElementById(id);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function button(text, label, action, className) {
  const made = element("button", text, className);
  made.type = "button";
  made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

function cell(content) {
  const td = document.createElement("td");
  if (Array.isArray(content)) td.append(...content);
  else if (content instanceof Node) td.append(content);
  else write(td, content === null || content === undefined || content === "" ? "–" : String(content));
  return td;
}

function write(td, text) {
  td.textContent = text;
  td.title = text.length > SHORT ? text : "";
}

// A part of something as a bar with its number.
function bar(part, text) {
  const whole = element("span", undefined, "bar"), filled = element("i");
  filled.style.width = Math.min(Math.max(part, 0), 1) * 100 + "%";
  if (part >= 0.95) filled.className = "full";
  whole.append(filled);
  whole.setAttribute("aria-hidden", "true");
  return [whole, text];
}

// Fills a table whose rows have names, in place. A function makes a control: it is called anew when the version is another and
// the control has not the focus, so that nothing goes away below somebody's fingers.
function fillByName(table, rows, none) {
  const body = byId(table).tBodies[0], known = new Map([...body.rows].map((tr) => [tr.dataset.name, tr]));
  rows.forEach(({ name, version, cells }, at) => {
    const tr = known.get(name) || document.createElement("tr");
    known.delete(name);
    tr.dataset.name = name;
    cells.forEach((content, column) => {
      const old = tr.cells[column];
      if (typeof content !== "function") {
        const made = cell(content);
        if (!old) tr.append(made);
        else if (Array.isArray(content)) old.replaceWith(made);
        else if (old.textContent !== made.textContent) write(old, made.textContent);
      } else if (!old || old.dataset.version !== caller.role + version && !old.contains(document.activeElement)) {
        const made = cell(content());
        made.dataset.version = caller.role + version;
        if (old) old.replaceWith(made);
        else tr.append(made);
      }
    });
    if (body.rows[at] !== tr) body.insertBefore(tr, body.rows[at] || null);
  });
  for (const gone of known.values()) gone.remove();
  if (!rows.length && none) {
    const tr = document.createElement("tr"), td = element("td", none, "none");
    td.colSpan = byId(table).tHead.rows[0].cells.length;
    tr.append(td);
    body.replaceChildren(tr);
  }
}

// Rows that have nothing to be used: their names are their places.
const fill = (table, rows, none) => fillByName(table, rows.map((cells, at) => ({ name: String(at), cells })), none);

function figures(id, pairs) {
  const list = byId(id);
  if (list.children.length !== pairs.length) list.replaceChildren(...pairs.map(() => {
    const box = document.createElement("div");
    box.append(element("dt"), element("dd"));
    return box;
  }));
  pairs.forEach(([name, value], at) => {
    const [dt, dd] = list.children[at].children;
    if (dt.textContent !== name) dt.textContent = name;
    if (dd.textContent !== String(value)) dd.textContent = value;
  });
}

const partTitle = (name, rows) => name + ": " + rows.total + (rows.found < rows.total ? ", " + rows.found + " found" : "") +
  (rows.rows.length < rows.found ? ", the first " + rows.rows.length + " are shown" : "");

const shareAddress = (name) => "#/share/" + encodeURIComponent(name);

function shareLink(name) {
  const link = element("a", name);
  link.href = shareAddress(name);
  return link;
}

// What the tables of sessions, operations, opens and locks show ------------------------------------------

function drawSessions(now) {
  byId("sessions-title").textContent = partTitle("SMB sessions", now.sessions);
  fill("sessions", now.sessions.rows.map((session) => {
    const each = session.channels.map((one) => shortNumber(one.bytes_in / MIB) + ", " + shortNumber(one.bytes_out / MIB) + " MiB (" + one.client + " → " + one.server + ")");
    const held = element("span", session.channels.length + " of " + session.max_channels);
    held.title = session.why;
    return [session.user, session.client, session.dialect, session.protection, session.shares.join(", "), session.opens, [held], each.join("; ")];
  }), "No client is logged on over SMB.");
  byId("nfs-title").textContent = partTitle("NFS clients", now.nfs_clients);
  fill("nfs", now.nfs_clients.rows.map((client) => [client.client, client.principal, client.shares.join(", "), client.opens,
    client.lock_owners, client.delegations, client.connections + " of " + client.max_connections, client.lease_age_seconds + " s ago"]),
    "No NFS client is known.");
}

function drawApis(sample) {
  const rows = [...sample.apis].sort((a, b) => b[1].rate - a[1].rate || b[1].all - a[1].all).slice(0, 40);
  const six = (api) => [api.server, api.e2e].flatMap((took) => [took.mean, took.p50, took.p99]).map(shortNumber);
  fill("apis", rows.map(([name, api]) => [name, shortNumber(api.rate), shortNumber(api.failed), shortNumber(api.held), ...six(api), api.all]),
    "Nothing was asked yet.");
}

const WORDS = { R: "read", W: "write", D: "delete", X: "execute" };
const inWords = (mask) => [...mask].map((letter) => WORDS[letter] || letter).join(", ");
const shortTime = (time) => time.slice(0, 10) === new Date().toISOString().slice(0, 10) ? time.slice(11, 19) : time.replace("T", " ").slice(0, 16);

function drawFiles(opens, locks) {
  byId("opens-title").textContent = partTitle("Opens", opens);
  fillByName("opens", opens.rows.map((open) => ({
    name: open.id, version: open.id,
    cells: [open.path, open.share, open.user, open.client || "away", open.protocol.toUpperCase(), inWords(open.access), inWords(open.sharing) || "nothing",
      open.caching && open.oplock + " (" + open.caching + ")", open.locks, shortTime(open.opened_at),
      () => ifMay("operate", button("Close", "Close " + open.path + " of " + open.user, () => closeOpen(open), "danger"))],
  })), "No file is open.");
  byId("locks-title").textContent = partTitle("Locks", locks);
  fillByName("locks", locks.rows.map((lock, at) => ({
    name: lock.id + " " + at, version: lock.id + " " + lock.start,
    cells: [lock.path, lock.share, lock.user, lock.client || "away", lock.protocol.toUpperCase(), lock.kind === "R" ? "shared" : "exclusive", lock.start,
      lock.size, () => !lock.id || !may("operate") ? "–" : button("Release", "Release the lock of " + lock.user + " on " + lock.path + " from byte " + lock.start, () => closeLock(lock), "danger")],
  })), "No byte range is locked.");
}

function choices(select, none, names, chosen) {
  const there = [...select.options].slice(1).map((option) => option.value);
  if (select.options.length && there.join("\n") === names.join("\n")) return;
  select.replaceChildren(new Option(none, ""), ...names.map((name) => new Option(name, name)));
  select.value = names.includes(chosen) ? chosen : "";
}

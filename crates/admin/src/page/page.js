"use strict";
// The admin page: asks the server once a second what it does, shows it, and changes shares and accounts.
//
// `poll` is the heart: it takes differences of two answers, keeps five minutes of them, and has everything drawn. Text goes
// into the page as text only, since names come from clients.

const MINUTES = 5, PLACES = MINUTES * 60, PATIENCE_MS = 8000;
const MIB = 1 << 20;
const byId = (id) => document.getElementById(id);

let token = "";
let last = null;          // the last answer
let samples = [];         // what came in each second, the newest last
let lists = { shares: [], accounts: [] };
let listed = 0;           // when these were asked for

// Asking ---------------------------------------------------------------------------------------------

async function ask(method, path, body, version) {
  const headers = { Authorization: "Bearer " + token };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (version !== undefined) headers["If-Match"] = version === "*" ? "*" : '"' + version + '"';
  const answer = await fetch("/api/v1/" + path, {
    method, headers, body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const value = await answer.json().catch(() => ({ error: answer.statusText }));
  if (answer.ok) return value;
  const error = new Error(value.error || answer.statusText);
  error.status = answer.status;
  throw error;
}

function told(text) {
  byId("told-text").textContent = text;
  if (!byId("told").open) byId("told").showModal();
}

// Makes a change, and says what was refused or should be known; gives what came of it, or null.
async function change(method, path, body, version) {
  try {
    const changed = await ask(method, path, body, version);
    if (changed.notes && changed.notes.length) told(changed.notes.join("\n"));
    return changed;
  } catch (error) {
    told(error.message);
    return null;
  } finally {
    listed = 0;
  }
}

// Changes one setting of a share or an account. Its control may stay: the next change from there is one of the new version.
async function set(kind, object, key, value) {
  const changed = await change("PATCH", kind + "/" + encodeURIComponent(object.name), { settings: { [key]: value } }, object.version);
  if (changed && changed.object) Object.assign(object, changed.object);
  refresh();
}

// Differences ----------------------------------------------------------------------------------------

function sum(counted, share) {
  const all = { reads: 0, writes: 0, metadata: 0, read: 0, written: 0, apis: new Map() };
  for (const one of counted) {
    if (share && one.file_share !== share) continue;
    all.reads += one.reads; all.writes += one.writes; all.metadata += one.metadata;
    all.read += one.read_bytes; all.written += one.written_bytes;
    for (const [name, api] of Object.entries(one.apis)) {
      const known = all.apis.get(one.protocol + " " + name) || { transactions: 0, failed: 0, throttled: 0, timed: 0, server_ns: 0, e2e_ns: 0 };
      for (const key of Object.keys(known)) known[key] += api[key];
      all.apis.set(one.protocol + " " + name, known);
    }
  }
  return all;
}

function difference(now, before, share) {
  const seconds = (now.at_ns - before.at_ns) / 1e9;
  if (!(seconds > 0) || now.started_at !== before.started_at) return null;
  const a = sum(now.counted, share), b = sum(before.counted, share);
  const rate = (key) => Math.max(0, a[key] - b[key]) / seconds;
  const apis = new Map();
  let held = 0, failed = 0;
  for (const [name, api] of a.apis) {
    const old = b.apis.get(name);
    const of = (key) => Math.max(0, api[key] - (old ? old[key] : 0));
    const timed = of("timed");
    apis.set(name, {
      rate: of("transactions") / seconds, failed: of("failed") / seconds, held: of("throttled") / seconds,
      server: timed ? of("server_ns") / timed / 1e6 : null, e2e: timed ? of("e2e_ns") / timed / 1e6 : null,
      all: api.transactions,
    });
    held += of("throttled") / seconds;
    failed += of("failed") / seconds;
  }
  const work = rate("reads") + rate("writes") + rate("metadata");
  return {
    reads: rate("reads"), writes: rate("writes"), metadata: rate("metadata"),
    read: rate("read") / MIB, written: rate("written") / MIB, apis, held, failed,
    part: work > 0 ? rate("metadata") * 100 / work : null,
  };
}

// Drawing --------------------------------------------------------------------------------------------

// More than this a cell may have to cut short; the pointer shows the whole.
const SHORT = 24;

function cell(content) {
  const td = document.createElement("td");
  if (content instanceof Node) td.append(content);
  else write(td, content === null || content === undefined || content === "" ? "–" : String(content));
  return td;
}

function write(td, text) {
  td.textContent = text;
  td.title = text.length > SHORT ? text : "";
}

function fill(table, rows) {
  byId(table).tBodies[0].replaceChildren(...rows.map((cells) => {
    const tr = document.createElement("tr");
    tr.append(...cells.map(cell));
    return tr;
  }));
}

// Fills a table whose rows have names, in place. What makes a control is a function, called anew when the version is another and
// the control has not the focus: nothing goes away below somebody's fingers.
function fillByName(table, rows) {
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
        else if (old.textContent !== made.textContent) write(old, made.textContent);
      } else if (!old || old.dataset.version !== version && !old.contains(document.activeElement)) {
        const made = cell(content());
        made.dataset.version = version;
        if (old) old.replaceWith(made);
        else tr.append(made);
      }
    });
    if (body.rows[at] !== tr) body.insertBefore(tr, body.rows[at] || null);
  });
  for (const gone of known.values()) gone.remove();
}

function drawFigures(now, sample) {
  const share = byId("share").value;
  const limits = share && now.shares[share] ? now.shares[share].limits : null;
  const figures = [
    ["Read MiB/s", shortNumber(sample.read)], ["Written MiB/s", shortNumber(sample.written)],
    ["Reads and writes /s", shortNumber(sample.reads + sample.writes)], ["Metadata /s", shortNumber(sample.metadata)],
    ["Metadata part", sample.part === null ? "–" : sample.part.toFixed(0) + " %"], ["Held by limits /s", shortNumber(sample.held)],
    ["Refused or failed /s", shortNumber(sample.failed)],
    ["SMB sessions", now.sessions.total], ["NFS clients", now.nfs_clients.total],
    ["Open files", now.open_files], ["Opens", now.opens], ["Locks", now.locks],
  ];
  if (limits) figures.push(["Burst credits", shortNumber(limits.burst_credits)]);
  byId("now").replaceChildren(...figures.map(([name, value]) => {
    const box = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = value;
    box.append(dt, dd);
    return box;
  }));
}

function drawPlots() {
  const line = (name, of) => ({ name, values: samples.map((sample) => sample === null ? null : of(sample)) });
  const plot = (id, lines) => drawPlot(byId(id), byId(id + "-legend"), lines, PLACES);
  plot("throughput", [line("read", (s) => s.read), line("written", (s) => s.written)]);
  plot("iops", [line("reads", (s) => s.reads), line("writes", (s) => s.writes), line("metadata", (s) => s.metadata)]);
  const busiest = new Map();
  for (const sample of samples) {
    if (sample) for (const [name, api] of sample.apis) busiest.set(name, (busiest.get(name) || 0) + (api.server === null ? 0 : api.rate));
  }
  const names = [...busiest].filter(([, rate]) => rate > 0).sort((a, b) => b[1] - a[1]).slice(0, 6).map(([name]) => name);
  const latency = (name) => line(name, (s) => s.apis.has(name) ? s.apis.get(name).server : null);
  plot("latency", names.map(latency));
  plot("held", [line("held", (s) => s.held), line("metadata %", (s) => s.part)]);
}

function drawApis(sample) {
  const rows = [...sample.apis].sort((a, b) => b[1].rate - a[1].rate || b[1].all - a[1].all).slice(0, 25);
  fill("apis", rows.map(([name, api]) => [name, shortNumber(api.rate), shortNumber(api.failed), shortNumber(api.held),
    shortNumber(api.server), shortNumber(api.e2e), api.all]));
}

function drawTables(now) {
  const part = (name, rows) => name + ": " + rows.total + (rows.found < rows.total ? ", " + rows.found + " found" : "") +
    (rows.rows.length < rows.found ? ", the first " + rows.rows.length + " are shown" : "");
  byId("sessions-title").textContent = part("SMB sessions", now.sessions);
  fill("sessions", now.sessions.rows.map((session) => {
    const channels = session.channels.length + " of " + session.max_channels;
    const each = session.channels.map((one) => shortNumber(one.bytes_in / MIB) + ", " + shortNumber(one.bytes_out / MIB) + " MiB (" + one.client + " → " + one.server + ")");
    const held = document.createElement("span");
    held.textContent = channels;
    held.title = session.why;
    return [session.user, session.client, session.dialect, session.protection, session.shares.join(", "), session.opens, held, each.join("; ")];
  }));
  byId("nfs-title").textContent = part("NFS clients", now.nfs_clients);
  fill("nfs", now.nfs_clients.rows.map((client) => [client.client, client.principal, client.shares.join(", "), client.opens,
    client.lock_owners, client.delegations, client.connections + " of " + client.max_connections, client.lease_age_seconds + " s ago"]));
}

function button(text, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", action);
  return made;
}

function sizeForm(share) {
  const form = document.createElement("form"), input = document.createElement("input"), save = document.createElement("button");
  input.type = "number";
  input.min = "1";
  input.value = share.settings.provisioned_gib ?? "";
  input.setAttribute("aria-label", "Provisioned GiB of " + share.name);
  save.textContent = "Set";
  form.append(input, save);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    set("shares", share, "provisioned_gib", input.value === "" ? null : Number(input.value));
  });
  return form;
}

// A switch of an account or a share.
function switchBox(kind, object, key, label) {
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = object.settings[key] === true;
  box.setAttribute("aria-label", label);
  box.addEventListener("change", () => set(kind, object, key, box.checked));
  return box;
}

async function remove(share) {
  const path = "shares/" + encodeURIComponent(share.name);
  if (!confirm("Take share " + share.name + " out? Its files stay.")) return;
  try {
    await ask("DELETE", path, undefined, share.version);
  } catch (error) {
    const inUse = error.status === 409 && error.message.includes("in use");
    if (inUse && confirm(error.message + "\n\nDisconnect whoever uses it?")) await change("DELETE", path + "?force=true", undefined, share.version);
    else if (!inUse) told(error.message);
  }
  refresh();
}

function drawLists(now) {
  const limited = new Set(lists.accounts.filter((one) => one.settings.kind !== "unlimited").map((one) => one.name.toLowerCase()));
  fillByName("shares", lists.shares.map((share) => {
    const state = now.shares[share.name] || { gauges: {}, limits: null }, gauges = state.gauges, limits = state.limits;
    const isLimited = limited.has((share.settings.account || "").toLowerCase());
    const used = gauges.max_used_iops === undefined ? null : gauges.max_used_iops + " /s, " + shortNumber(gauges.max_used_bandwidth_bytes / MIB) + " MiB/s";
    const cells = [share.name, share.settings.account, share.settings.path, () => isLimited ? sizeForm(share) : "not limited",
      limits ? limits.iops + (limits.burst_iops > limits.iops ? ", burst " + limits.burst_iops : "") : null, used,
      limits ? shortNumber(limits.burst_credits) + " of " + shortNumber(limits.max_burst_credits) : null,
      limits ? limits.held : null, gauges.open_files,
      () => switchBox("shares", share, "metadata_caching", "Metadata caching of " + share.name),
      () => button("Delete", () => remove(share))];
    return { name: share.name, version: share.version + (isLimited ? "" : " not limited"), cells };
  }));
  fillByName("accounts", lists.accounts.map((account) => {
    const box = () => switchBox("accounts", account, "multichannel", "Multichannel for the sessions of " + account.name + " from now on");
    const cells = [account.name, account.settings.kind, account.settings.formula, box, account.settings.max_channels];
    return { name: account.name, version: account.version, cells };
  }));
  const chosen = byId("share").value, select = byId("create").elements.account, account = select.value;
  choices(byId("share"), "all", Object.keys(now.shares), chosen);
  choices(select, "none", lists.accounts.map((one) => one.name), account);
}

function choices(select, none, names, chosen) {
  const there = [...select.options].slice(1).map((option) => option.value);
  if (select.options.length && there.join("\n") === names.join("\n")) return;
  select.replaceChildren(new Option(none, ""), ...names.map((name) => new Option(name, name)));
  select.value = names.includes(chosen) ? chosen : "";
}

// The loop -------------------------------------------------------------------------------------------

async function refresh() {
  const [shares, accounts] = await Promise.all([ask("GET", "shares"), ask("GET", "accounts")]);
  lists = { shares, accounts };
  listed = Date.now();
  if (last) drawLists(last);
}

function state(text, isBad) {
  byId("state").textContent = text;
  byId("state").className = isBad ? "bad" : "";
}

// A second more; null where nothing is known of it.
function keep(sample) {
  samples.push(sample);
  if (samples.length > PLACES) samples.shift();
}

async function poll() {
  const find = encodeURIComponent(byId("find").value.trim());
  const now = await ask("GET", "overview?most=50&find=" + find);
  const sample = last && difference(now, last, byId("share").value);
  if (last && now.started_at !== last.started_at) samples = [];
  last = now;
  byId("main").hidden = false;
  byId("enter").hidden = true;
  byId("server").textContent = now.server_name + " " + now.version;
  document.title = now.server_name + " · Trunkline";
  if (sample) {
    keep(sample);
    drawFigures(now, sample);
    drawPlots();
    drawApis(sample);
  }
  drawTables(now);
  if (Date.now() - listed > 10000) await refresh();
  else drawLists(now);
  state("since " + now.started_at.replace("T", " ").slice(0, 19) + ", seen " + new Date().toISOString().slice(11, 19) + " UTC", false);
}

async function run() {
  for (;;) {
    const begun = performance.now();
    try {
      if (!document.hidden) await poll();
    } catch (error) {
      if (error.status === 401) {
        sessionStorage.removeItem("token");
        byId("main").hidden = true;
        byId("enter").hidden = false;
        byId("token").focus();
        state(error.message, true);
        return;
      }
      if (samples.length) keep(null);
      state("no answer: " + error.message, true);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(200, 1000 - (performance.now() - begun))));
  }
}

byId("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  sessionStorage.setItem("token", token);
  run();
});

byId("share").addEventListener("change", () => { samples = []; });

byId("create").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target.elements;
  const settings = { path: form.path.value, protocols: form.protocols.value.split(","), users: {} };
  if (form.account.value) settings.account = form.account.value;
  if (form.provisioned_gib.value) settings.provisioned_gib = Number(form.provisioned_gib.value);
  for (const item of form.users.value.split(",")) {
    const [name, access] = item.split("=").map((text) => text.trim());
    settings.users[name] = access || "write";
  }
  if (await change("POST", "shares", { name: form.name.value, settings })) event.target.reset();
  refresh();
});

// A link may bring the token behind its #, which is not sent to any server.
if (location.hash.startsWith("#token=")) {
  sessionStorage.setItem("token", location.hash.slice(7));
  history.replaceState(null, "", "/");
}
token = sessionStorage.getItem("token") || "";
if (token) run();
else {
  byId("enter").hidden = false;
  byId("token").focus();
}

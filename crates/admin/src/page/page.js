"use strict";
// The admin page: asks the server once a second what it does, and shows it. plot.js draws, tables.js fills tables, forms.js
// makes changes, tokens.js knows what the token's role may do.
//
// `poll` is the heart: it takes differences of two answers, keeps five minutes of them, and has the view that is looked at drawn.
// `route` chooses that view by what stands behind the # of the address.

const MINUTES = 5, PLACES = MINUTES * 60, PATIENCE_MS = 8000, LISTS_MS = 10000;
// So many shares have a history before they are looked at.
const MOST_HISTORIES = 64;

let token = "";
let last = null;          // the last answer, and the share that it was asked for
let past = new Map();  // by the share's name, "" for all: what came in each second, the newest last
let lists = { shares: [], accounts: [], users: [], tokens: [] };
let listed = 0;           // when these were asked for
let view = "overview";

const forgetLists = () => { listed = 0; };

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

// Differences --------------------------------------------------------------------------------------------

const KEYS = ["reads", "writes", "metadata", "read_bytes", "written_bytes"];
const COUNTS = ["transactions", "failed", "throttled", "timed", "server_ns", "e2e_ns"];

function sum(counted, share) {
  const all = { apis: new Map() };
  for (const key of KEYS) all[key] = 0;
  for (const one of counted) {
    if (share && one.file_share !== share) continue;
    for (const key of KEYS) all[key] += one[key];
    for (const [name, api] of Object.entries(one.apis)) {
      const known = all.apis.get(one.protocol + " " + name) || Object.fromEntries(COUNTS.map((key) => [key, 0]));
      for (const key of COUNTS) known[key] += api[key];
      all.apis.set(one.protocol + " " + name, known);
    }
  }
  return all;
}

// How often something took how long between two answers: each [middle of a step in ms, how often], the shortest first.
function distribution(now, before) {
  const old = new Map((before || []).map(([from, , count]) => [from, count]));
  const steps = (now || []).map(([from, below, count]) => [(below === null ? from : (from + below) / 2) / 1e6, count - (old.get(from) || 0)]);
  return steps.filter(([, count]) => count > 0);
}

// The time that a part of all did not exceed; null when there was nothing.
function quantile(steps, part) {
  let left = Math.ceil(steps.reduce((all, [, count]) => all + count, 0) * part);
  for (const [ms, count] of steps) if ((left -= count) <= 0) return ms;
  return null;
}

const merged = (all) => all.flat().sort((a, b) => a[0] - b[0]);

function took(steps, timed, ns) {
  return { mean: timed ? ns / timed / 1e6 : null, p50: quantile(steps, 0.5), p99: quantile(steps, 0.99), steps };
}

// What has come in each second between two answers. Latencies are known where both were asked for this share.
function difference(now, before, share, hasLatencies) {
  const seconds = (now.at_ns - before.at_ns) / 1e9;
  if (!(seconds > 0) || now.started_at !== before.started_at) return null;
  const a = sum(now.counted, share), b = sum(before.counted, share);
  const rate = (key) => Math.max(0, a[key] - b[key]) / seconds;
  const latencies = (answer) => new Map((hasLatencies ? answer.latencies : []).map((one) => [one.protocol + " " + one.api_name, one]));
  const later = latencies(now), earlier = latencies(before);
  const apis = new Map();
  let held = 0, failed = 0;
  for (const [name, api] of a.apis) {
    const old = b.apis.get(name), after = later.get(name) || {}, first = earlier.get(name) || {};
    const of = (key) => Math.max(0, api[key] - (old ? old[key] : 0));
    const timed = of("timed");
    apis.set(name, {
      rate: of("transactions") / seconds, failed: of("failed") / seconds, held: of("throttled") / seconds, all: api.transactions,
      server: took(distribution(after.server, first.server), timed, of("server_ns")),
      e2e: took(distribution(after.e2e, first.e2e), timed, of("e2e_ns")), timed,
    });
    held += of("throttled") / seconds;
    failed += of("failed") / seconds;
  }
  const data = merged([...apis].filter(([name]) => / (read|write)$/i.test(name)).map(([, api]) => api.server.steps));
  const work = rate("reads") + rate("writes") + rate("metadata");
  return {
    reads: rate("reads"), writes: rate("writes"), metadata: rate("metadata"),
    read: rate("read_bytes") / MIB, written: rate("written_bytes") / MIB, apis, held, failed,
    p50: quantile(data, 0.5), p99: quantile(data, 0.99), part: work > 0 ? rate("metadata") * 100 / work : null,
  };
}

// Drawing ------------------------------------------------------------------------------------------------

const scope = () => byId("share").value;
const samplesOf = (share) => past.get(share) || [];
const limitsOf = (now, share) => share && now.shares[share] ? now.shares[share].limits : null;

function drawFigures(now, sample) {
  const milliseconds = (value) => value === null ? "–" : shortNumber(value) + " ms";
  figures("now", [
    ["Read MiB/s", shortNumber(sample.read)], ["Written MiB/s", shortNumber(sample.written)],
    ["Reads and writes /s", shortNumber(sample.reads + sample.writes)], ["Metadata /s", shortNumber(sample.metadata)],
    ["Latency, 50 %", milliseconds(sample.p50)], ["Latency, 99 %", milliseconds(sample.p99)],
    ["Held by limits /s", shortNumber(sample.held)], ["Refused or failed /s", shortNumber(sample.failed)],
    ["SMB sessions", now.sessions.total], ["NFS clients", now.nfs_clients.total], ["Open files", now.open_files], ["Locks", now.locks],
  ]);
  drawFacts(now);
}

// What is so of the one share that is looked at.
function drawFacts(now) {
  const share = scope(), state = now.shares[share], card = byId("share-facts");
  card.hidden = !state;
  byId("busy-card").hidden = Boolean(state);
  byId("overview-title").textContent = state ? "Share " + share : "Overview";
  if (!state) return;
  const object = lists.shares.find((one) => one.name === share), limits = state.limits, gauges = state.gauges;
  const gib = (bytes) => bytes === null || bytes === undefined ? "–" : shortNumber(bytes / (1 << 30)) + " GiB";
  const facts = [["Account", object && object.settings.account || "none"],
    ["Files take", gib(gauges.file_capacity_bytes)], ["Size", gib(gauges.capacity_quota_bytes ?? gauges.volume_size_bytes)], ["Open files", gauges.open_files]];
  if (limits) {
    const rate = limits.is_together ? shortNumber(limits.ingress_bytes / MIB)
      : shortNumber(limits.ingress_bytes / MIB) + " in, " + shortNumber(limits.egress_bytes / MIB) + " out";
    facts.push(["Limit, IOPS", limits.iops + (limits.burst_iops > limits.iops ? ", burst " + limits.burst_iops : "")],
      ["Limit, MiB/s", rate], ["Limit, metadata /s", limits.metadata_iops],
      ["Burst credits", shortNumber(limits.burst_credits) + " of " + shortNumber(limits.max_burst_credits)], ["Held now", limits.held]);
  } else facts.push(["Limits", "none"]);
  figures("facts", facts);
  byId("share-path").textContent = object ? object.settings.path : "";
}

function drawPlots() {
  const samples = samplesOf(scope()), limits = last ? limitsOf(last.answer, scope()) : null;
  const line = (name, of, more) => ({ name, values: samples.map((sample) => sample === null ? null : of(sample)), ...more });
  const plot = (id, lines, more) => drawPlot(byId(id), byId(id + "-legend"), lines, { places: PLACES, ...more });
  const bytes = [line("read", (s) => s.read, { isFilled: true }), line("written", (s) => s.written)];
  const operations = [line("reads", (s) => s.reads, { isFilled: true }), line("writes", (s) => s.writes), line("metadata", (s) => s.metadata)];
  const bounds = { throughput: [], iops: [] };
  if (limits) {
    // What counts together against a limit is a line too.
    operations.push(line("reads and writes", (s) => s.reads + s.writes, { colour: 3 }));
    bounds.iops.push({ name: "limit", value: limits.iops });
    const most = (of) => Math.max(0, ...samples.filter((sample) => sample).map(of));
    const isFar = (used, limit) => used * 1.25 < limit;
    if (limits.burst_iops > limits.iops) {
      bounds.iops.push({ name: "burst limit", value: limits.burst_iops, isSpare: isFar(most((s) => s.reads + s.writes), limits.iops) });
    }
    if (limits.metadata_iops) {
      bounds.iops.push({ name: "metadata limit", value: limits.metadata_iops, isSpare: isFar(most((s) => s.metadata), limits.metadata_iops / 3) });
    }
    if (limits.is_together) {
      bytes.push(line("together", (s) => s.read + s.written, { colour: 3 }));
      bounds.throughput.push({ name: "limit", value: limits.ingress_bytes / MIB });
    } else {
      bounds.throughput.push({ name: "limit of reads", value: limits.egress_bytes / MIB }, { name: "limit of writes", value: limits.ingress_bytes / MIB });
    }
  }
  plot("throughput", bytes, { limits: bounds.throughput });
  plot("iops", operations, { limits: bounds.iops });
  const busiest = new Map();
  for (const sample of samples) {
    if (sample) for (const [name, api] of sample.apis) busiest.set(name, (busiest.get(name) || 0) + (api.timed ? api.rate : 0));
  }
  const names = [...busiest].filter(([, rate]) => rate > 0).sort((a, b) => b[1] - a[1]).slice(0, 2).map(([name]) => name);
  const api = (s, name, key) => s.apis.has(name) ? s.apis.get(name).server[key] : null;
  plot("latency", names.flatMap((name, colour) => [line(name + " 50 %", (s) => api(s, name, "p50"), { colour }),
    line("99 %", (s) => api(s, name, "p99"), { colour, isDashed: true })]), { isLog: true });
  plot("held", [line("held", (s) => s.held, { isFilled: true }), line("metadata %", (s) => s.part)]);
}

function drawBusy(now) {
  if (scope()) return;
  const rows = Object.entries(now.shares).map(([name, state]) => [name, state, samplesOf(name).at(-1)]).filter(([, , sample]) => sample);
  rows.sort((a, b) => b[2].reads + b[2].writes + b[2].metadata - (a[2].reads + a[2].writes + a[2].metadata) || (a[0] < b[0] ? -1 : 1));
  fillByName("busy", rows.slice(0, 8).map(([name, { limits, gauges }, sample]) => {
    const used = sample.reads + sample.writes, most = limits ? Math.max(limits.iops, limits.burst_credits > 0 ? limits.burst_iops : 0) : 0;
    return { name, version: name, cells: [() => shareLink(name), shortNumber(used), limits ? bar(used / most, (used / most * 100).toFixed(0) + " %") : "no limit",
      shortNumber(sample.read), shortNumber(sample.written), shortNumber(sample.metadata), shortNumber(sample.held),
      limits ? (limits.burst_credits / Math.max(limits.max_burst_credits, 1) * 100).toFixed(0) + " %" : null, gauges.open_files] };
  }), "There is no share yet.");
}

function drawLists(now) {
  const limited = new Set(lists.accounts.filter((one) => one.settings.kind !== "unlimited").map((one) => one.name.toLowerCase()));
  fillByName("shares", lists.shares.map((share) => {
    const state = now.shares[share.name] || { gauges: {}, limits: null }, gauges = state.gauges, limits = state.limits;
    const isLimited = limited.has((share.settings.account || "").toLowerCase());
    const used = gauges.max_used_iops === undefined ? null : gauges.max_used_iops + " /s, " + shortNumber(gauges.max_used_bandwidth_bytes / MIB) + " MiB/s";
    const cells = [() => shareLink(share.name), share.settings.account, share.settings.path, () => isLimited ? ifMay("operate", sizeForm(share), share.settings.provisioned_gib) : "not limited",
      limits ? limits.iops + (limits.burst_iops > limits.iops ? ", burst " + limits.burst_iops : "") : null, used,
      limits ? shortNumber(limits.burst_credits) + " of " + shortNumber(limits.max_burst_credits) : null,
      limits ? limits.held : null, gauges.open_files,
      () => switchBox("shares", share, "metadata_caching", "Metadata caching of " + share.name),
      () => ifMay("administer", button("Delete", "Delete share " + share.name, () => removeShare(share), "danger"))];
    return { name: share.name, version: share.version + (isLimited ? "" : " not limited"), cells };
  }), "There is no share yet.");
  fillByName("accounts", lists.accounts.map((account) => {
    const box = () => switchBox("accounts", account, "multichannel", "Multichannel for the sessions of " + account.name + " from now on");
    const cells = [account.name, account.settings.kind, account.settings.formula, box, account.settings.max_channels];
    return { name: account.name, version: account.version, cells };
  }), "There is no account. Accounts give several shares limits and settings in common.");
  drawUsers(lists.users);
  drawTokens(lists.tokens);
  choices(byId("create").elements.account, "none", lists.accounts.map((one) => one.name), byId("create").elements.account.value);
  const counts = { shares: lists.shares.length, accounts: lists.accounts.length, users: lists.users.length, tokens: lists.tokens.length, sessions: now.sessions.total + now.nfs_clients.total, files: now.opens };
  for (const [name, count] of Object.entries(counts)) byId("count-" + name).textContent = count || "";
  drawFirstSteps(now);
}

// An empty server says how it comes to be of use.
function drawFirstSteps(now) {
  const hasClient = now.sessions.total + now.nfs_clients.total > 0 || now.counted.some((one) => one.file_share && one.reads + one.writes + one.metadata > 0);
  // Where NFS is served alone, nobody needs a password.
  const steps = { share: lists.shares.length > 0, user: lists.users.length > 0 || hasClient, client: hasClient };
  const card = byId("first");
  card.hidden = !listed || Boolean(scope()) || Object.values(steps).every(Boolean);
  for (const [name, isDone] of Object.entries(steps)) byId("step-" + name).className = isDone ? "done" : "";
  if (card.hidden) return;
  const local = /^(localhost|127\.|\[)/.test(location.hostname), host = local ? now.server_name : location.hostname;
  const share = lists.shares.length ? lists.shares[0].name : "SHARE", user = lists.users.length ? lists.users[0].name : "USER";
  const port = (addresses, usual) => (addresses.map((address) => address.slice(address.lastIndexOf(":") + 1)).find(Boolean) || usual);
  const smb = port(now.listen, "445");
  byId("how-windows").textContent = "net use Z: \\\\" + host + "\\" + share + " /user:" + user + (smb === "445" ? "" : " /tcpport:" + smb);
  byId("how-linux").textContent = "mount -t cifs //" + host + "/" + share + " /mnt -o username=" + user + (smb === "445" ? "" : ",port=" + smb);
  byId("how-nfs-line").hidden = !now.nfs_listen.length;
  byId("how-nfs").textContent = "mount -t nfs4 -o port=" + port(now.nfs_listen, "2049") + ",nconnect=4 " + host + ":/" + share + " /mnt";
}

// The loop -----------------------------------------------------------------------------------------------

async function refresh() {
  const kinds = ["shares", "accounts", "users", ...may("administer") ? ["tokens"] : []];
  const [shares, accounts, users, tokens = []] = await Promise.all(kinds.map((kind) => ask("GET", kind)));
  lists = { shares, accounts, users, tokens };
  listed = Date.now();
  if (last) drawLists(last.answer);
}

function state(text, isBad) {
  if (byId("state").textContent !== text) byId("state").textContent = text;
  byId("state").className = isBad ? "bad" : "";
}

// A second more of all shares together and of each; null where nothing is known of it.
function keep(now, before, asked) {
  const names = now ? Object.keys(now.shares).slice(0, MOST_HISTORIES) : [];
  for (const name of past.keys()) if (now && name && !(name in now.shares)) past.delete(name);
  for (const share of new Set(["", scope(), ...names, ...(now ? [] : past.keys())])) {
    const samples = samplesOf(share);
    samples.push(now ? difference(now, before, share, share === asked) : null);
    if (samples.length > PLACES) samples.shift();
    past.set(share, samples);
  }
}

// Both tables of the view of files, for the text that is looked for.
const filesQuery = () => "&most=100&files=" + encodeURIComponent(byId("find-files").value.trim());

function drawFilesOf(now, query) {
  // An older answer may come after a newer one while somebody types.
  if (now.files && query === filesQuery()) drawFiles(now.files.opens, now.files.locks);
}

async function pollFiles() {
  const query = filesQuery();
  drawFilesOf(await ask("GET", "overview?share=" + query), query);
}

async function poll() {
  if (!caller) await learnRole();
  const share = scope(), find = encodeURIComponent(byId("find").value.trim());
  const query = view === "files" ? filesQuery() : "&most=50";
  const now = await ask("GET", "overview?find=" + find + "&share=" + encodeURIComponent(share) + query);
  // The answer to a question that is not the one of this moment is of no use.
  if (share !== scope()) return;
  const before = last && last.answer;
  if (before && now.started_at !== before.started_at) past = new Map();
  else if (before && now.at_ns > before.at_ns) keep(now, before, share === last.share ? share : null);
  last = { answer: now, share };
  byId("main").hidden = byId("body").hidden = byId("scope").hidden = false;
  byId("entry").hidden = true;
  byId("server").textContent = now.server_name + " " + now.version;
  document.title = now.server_name + " · Trunkline";
  chooseScope(now);
  const sample = samplesOf(scope()).at(-1);
  if (sample) {
    if (view === "overview") {
      drawFigures(now, sample);
      drawPlots();
      drawBusy(now);
    } else if (view === "operations") drawApis(sample);
  }
  if (view === "sessions") drawSessions(now);
  if (view === "files") drawFilesOf(now, query);
  if (Date.now() - listed > LISTS_MS) await refresh();
  else drawLists(now);
  state("running", false);
  // Not in the status above, which screen readers tell with each change.
  byId("seen").textContent = "since " + now.started_at.replace("T", " ").slice(0, 16) + ", seen " + new Date().toISOString().slice(11, 19) + " UTC";
}

async function run() {
  for (;;) {
    const begun = performance.now();
    try {
      if (!document.hidden) await poll();
    } catch (error) {
      if (error.status === 401) {
        sessionStorage.removeItem("token");
        caller = null;
        byId("main").hidden = byId("body").hidden = byId("scope").hidden = true;
        showEntry();
        state(error.message, true);
        return;
      }
      if (past.size) keep(null);
      state("no answer: " + error.message, true);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(200, 1000 - (performance.now() - begun))));
  }
}

// Views --------------------------------------------------------------------------------------------------

// The share that the address names, as soon as it is known.
function chooseScope(now) {
  const wanted = /^#\/share\/(.+)$/.exec(location.hash), chosen = wanted ? decodeURIComponent(wanted[1]) : "";
  choices(byId("share"), "all shares", Object.keys(now.shares), scope());
  if (chosen === scope() || chosen && !(chosen in now.shares)) return;
  byId("share").value = chosen;
}

function route() {
  const found = /^#\/(\w+)/.exec(location.hash), name = found ? found[1] : "overview";
  const wanted = name === "share" ? "overview" : name;
  if (!byId("view-" + wanted)) return;
  view = wanted;
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== "view-" + view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === "#/" + view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!last) return;
  if (view === "overview") chooseScope(last.answer);
  drawView();
}

// What is known already is shown without waiting for the next second.
function drawView() {
  const now = last.answer, sample = samplesOf(scope()).at(-1);
  if (view === "sessions") drawSessions(now);
  if (view === "files") pollFiles().catch((error) => state("no answer: " + error.message, true));
  if (view === "operations" && sample) drawApis(sample);
  if (view === "overview") {
    if (sample) drawFigures(now, sample);
    drawFacts(now);
    drawPlots();
    drawBusy(now);
  }
}

window.addEventListener("hashchange", () => {
  route();
  byId("main").focus({ preventScroll: true });
  scrollTo(0, 0);
});
window.addEventListener("resize", () => { if (view === "overview") drawPlots(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (view === "overview") drawPlots(); });
for (const id of ["throughput", "iops", "latency", "held"]) lookAtPlot(byId(id), PLACES, drawPlots);

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
byId("share").addEventListener("change", () => { location.hash = scope() ? shareAddress(scope()) : "#/overview"; });
byId("find-users").addEventListener("input", () => drawUsers(lists.users));
byId("find-files").addEventListener("input", () => pollFiles().catch(() => {}));

function showEntry() {
  byId("entry").hidden = false;
  byId("token").focus();
}

byId("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  sessionStorage.setItem("token", token);
  run();
});

// A link may bring the token behind its #, which is not sent to any server.
if (location.hash.startsWith("#token=")) {
  sessionStorage.setItem("token", location.hash.slice(7));
  history.replaceState(null, "", "/");
}
token = sessionStorage.getItem("token") || "";
route();
if (token) run();
else showEntry();

"use strict";
// What the admin page changes: shares, accounts, users, open files. Each removal is asked about first.

function told(text) {
  byId("told-text").textContent = text;
  if (!byId("told").open) byId("told").showModal();
}

// Says in passing that something is done.
function done(text) {
  byId("done").textContent = text;
  clearTimeout(done.timer);
  done.timer = setTimeout(() => { byId("done").textContent = ""; }, 5000);
}

let questions = 0;        // how many were asked

// Asks first; gives whether the answer is yes. Escape and Cancel are no.
function sure(title, text, yes) {
  byId("question-title").textContent = title;
  byId("question-text").textContent = text;
  byId("question-yes").textContent = yes;
  const dialog = byId("question");
  const own = ++questions;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    const closed = () => {
      // A dialog tells late that it is closed: by then it may ask the next question.
      if (own === questions && dialog.open) return;
      dialog.removeEventListener("close", closed);
      resolve(own === questions && dialog.returnValue === "yes");
    };
    dialog.addEventListener("close", closed);
  });
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
    forgetLists();
  }
}

// Changes one setting of a share or an account. Its control may stay: the next change from there is one of the new version.
async function set(kind, object, key, value) {
  const changed = await change("PATCH", kind + "/" + encodeURIComponent(object.name), { settings: { [key]: value } }, object.version);
  if (changed && changed.object) Object.assign(object, changed.object);
  refresh();
}

function sizeForm(share) {
  const form = document.createElement("form"), input = document.createElement("input"), save = element("button", "Set");
  input.type = "number";
  input.min = "1";
  input.value = share.settings.provisioned_gib ?? "";
  input.setAttribute("aria-label", "Provisioned GiB of " + share.name);
  save.setAttribute("aria-label", "Set the provisioned GiB of " + share.name);
  form.append(input, save);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    set("shares", share, "provisioned_gib", input.value === "" ? null : Number(input.value));
  });
  return form;
}

// A switch of an account or a share.
function switchBox(kind, object, key, label) {
  if (!may("operate")) return element("span", object.settings[key] === true ? "on" : "off");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = object.settings[key] === true;
  box.setAttribute("aria-label", label);
  box.addEventListener("change", () => set(kind, object, key, box.checked));
  return box;
}

async function removeShare(share) {
  const path = "shares/" + encodeURIComponent(share.name);
  if (!await sure("Delete share " + share.name + "?", "Clients do not find it any more. Its files stay in " + share.settings.path + ".", "Delete share")) return;
  try {
    await ask("DELETE", path, undefined, share.version);
    done("Share " + share.name + " is deleted.");
  } catch (error) {
    const inUse = error.status === 409 && error.message.includes("in use");
    if (!inUse) told(error.message);
    else if (await sure("Disconnect the clients of " + share.name + "?", error.message, "Disconnect and delete")) {
      if (await change("DELETE", path + "?force=true", undefined, share.version)) done("Share " + share.name + " is deleted.");
    }
  }
  refresh();
}

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
  const name = form.name.value;
  if (await change("POST", "shares", { name, settings })) {
    event.target.reset();
    byId("share-dialog").close();
    done("Share " + name + " is made.");
  }
  refresh();
});

// Users --------------------------------------------------------------------------------------------------

let edited = null;        // the user in the dialog; null: a new one

function openUser(user) {
  const form = byId("user-form"), fields = form.elements;
  edited = user;
  form.reset();
  byId("user-dialog-title").textContent = user ? "User " + user.name : "New user";
  byId("password-label").textContent = user ? "New password" : "Password";
  byId("password-hint").textContent = user ? "Leave both empty to keep the password." : "The server keeps a hash of it and shows it to nobody.";
  byId("user-save").textContent = user ? "Save" : "Add";
  fields.name.value = user ? user.name : "";
  fields.name.readOnly = Boolean(user);
  fields.password.required = fields.again.required = !user;
  fields.uid.value = user ? user.uid ?? "" : "";
  fields.gid.value = user ? user.gid ?? "" : "";
  fields.admin.checked = Boolean(user && user.admin);
  byId("user-dialog").showModal();
  (user ? fields.password : fields.name).focus();
}

byId("user-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = event.target.elements, user = edited, name = fields.name.value.trim();
  if (fields.password.value !== fields.again.value) return told("The two passwords are not the same.");
  const body = {};
  if (!user) body.name = name;
  if (fields.password.value) body.password = fields.password.value;
  for (const key of ["uid", "gid"]) {
    const value = fields[key].value === "" ? null : Number(fields[key].value);
    // An emptied id of a user becomes that of the host's user of the same name.
    if (value !== (user ? user[key] : null)) body[key] = value;
  }
  if (!user || fields.admin.checked !== user.admin) body.admin = fields.admin.checked;
  const changed = await change(user ? "PATCH" : "POST", user ? "users/" + encodeURIComponent(name) : "users", body);
  if (changed) {
    byId("user-dialog").close();
    done("User " + name + (user ? " is changed." : " is added."));
  }
  refresh();
});

// Nothing of a password stays in the page.
byId("user-dialog").addEventListener("close", () => byId("user-form").reset());

async function removeUser(user) {
  if (!await sure("Remove user " + user.name + "?", "Their sessions end, and they cannot log on any more. Their files stay.", "Remove user")) return;
  if (await change("DELETE", "users/" + encodeURIComponent(user.name))) done("User " + user.name + " is removed.");
  refresh();
}

function drawUsers(users) {
  const wanted = byId("find-users").value.trim().toLowerCase();
  const found = users.filter((user) => !wanted || user.name.toLowerCase().includes(wanted) || String(user.uid) === wanted).slice(0, 200);
  byId("users-title").textContent = "Users" + (found.length < users.length ? ": " + found.length + " of " + users.length + " are shown" : "");
  fillByName("users", found.map((user) => ({
    name: user.name, version: JSON.stringify(user),
    cells: [user.name, user.uid ?? "none: may not log on", user.gid ?? "none", user.admin ? "yes" : "no", user.source === "state" ? "kept by the server" : "in " + user.source, user.sid,
      () => !may("administer") ? "–" : [button("Change", "Change user " + user.name, () => openUser(user)), button("Remove", "Remove user " + user.name, () => removeUser(user), "danger")]],
  })), users.length ? "No user fits." : "There is no user yet.");
}

// Open files and locks -----------------------------------------------------------------------------------

async function closeOpen(open) {
  const text = open.user + " has " + open.path + " of share " + open.share + " open" + (open.client ? " at " + open.client : "") +
    ". What its program has not written yet is lost, its locks are released, and its next access to the file fails.";
  if (!await sure("Close this file?", text, "Close file")) return;
  if (await change("DELETE", "open-files/" + encodeURIComponent(open.id))) done(open.path + " is closed.");
  pollFiles();
}

async function closeLock(lock) {
  const more = lock.protocol === "smb" ? " Over SMB a lock is released with its open: the file is closed for this client."
    : " The client loses all locks of the same owner on this file, and is told so.";
  const text = lock.user + " has locked " + lock.path + " of share " + lock.share + " from byte " + lock.start + "." + more;
  if (!await sure("Release this lock?", text, "Release lock")) return;
  if (await change("DELETE", "locks/" + encodeURIComponent(lock.id))) done("The lock on " + lock.path + " is released.");
  pollFiles();
}

// Dialogs ------------------------------------------------------------------------------------------------

for (const opener of document.querySelectorAll("[data-opens]")) {
  opener.addEventListener("click", () => opener.dataset.opens === "user-dialog" ? openUser(null) : byId(opener.dataset.opens).showModal());
}
for (const closer of document.querySelectorAll("[data-closes]")) {
  closer.addEventListener("click", () => byId(closer.dataset.closes).close());
}
